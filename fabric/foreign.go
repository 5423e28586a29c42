// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

// Foreign is an attachment of another fabric that may have the same manager.
type Foreign struct {
	Device DeviceRef
	// Claimed says that the device is for a claim, and was not found attached.
	Claimed bool
}

// ObserveForeign tells that another fabric has an attachment for a device, which is
// then not one that was forgotten.
func (p *Planner) ObserveForeign(name string, seen Foreign) {
	if old, known := p.foreign[name]; known && old == seen {
		return
	}
	p.ForgetForeign(name)
	p.foreign[name] = seen
	add(p.foreignOf, seen.Device, name)
	p.touchDevice(seen.Device)
}

// ForgetForeign tells that such an attachment does not exist, or is of another
// manager.
func (p *Planner) ForgetForeign(name string) {
	old, known := p.foreign[name]
	if !known {
		return
	}
	delete(p.foreign, name)
	remove(p.foreignOf, old.Device, name)
	p.touchDevice(old.Device)
}

// foreignClaim tells whether another fabric has the device for a claim.
func (f *facts) foreignClaim(ref DeviceRef) bool {
	for name := range f.foreignOf[ref] {
		if f.foreign[name].Claimed {
			return true
		}
	}
	return false
}

// Bar has nothing offered and nothing attached, or ends that. What is attached already
// stays while it is used, and goes back as ever.
func (p *Planner) Bar(barred bool) {
	if p.barred != barred {
		p.barred = barred
		p.touchAll()
	}
}
