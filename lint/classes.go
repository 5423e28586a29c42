// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/inventory"
)

// checkClassSelectors reports classes whose selectors do not compile.
func (c *checker) checkClassSelectors() {
	for _, class := range c.cluster.DeviceClasses {
		for i := range class.Spec.Selectors {
			if problem := c.invalid(class.Spec.Selectors[i]); problem != "" {
				c.class(Error, "class-selector-invalid", class, selectorPath("spec", i), problem, selectorFix)
			}
		}
	}
}

// checkClasses reports classes whose selectors fail or select nothing.
func (c *checker) checkClasses() {
	for _, class := range c.cluster.DeviceClasses {
		if c.valid(class.Spec.Selectors) {
			c.checkMatches(class)
		}
	}
}

// valid reports whether all selectors can be used.
func (c *checker) valid(selectors []resourceapi.DeviceSelector) bool {
	return !slices.ContainsFunc(selectors, func(s resourceapi.DeviceSelector) bool {
		return s.CEL == nil || c.invalid(s) != ""
	})
}

func (c *checker) class(level Level, rule string, class *resourceapi.DeviceClass, field, problem, fix string) {
	c.add(Finding{Level: level, Rule: rule, Kind: "DeviceClass", Name: class.Name, Field: field, Problem: problem, Fix: fix})
}

func selectorPath(of string, i int) string {
	return fmt.Sprintf("%s.selectors[%d].cel.expression", of, i)
}

const selectorFix = "correct the expression; device has driver, attributes, capacity and allowMultipleAllocations"

// invalid says why an expression does not compile, empty where it does. That there is
// none is up to the API server.
func (c *checker) invalid(s resourceapi.DeviceSelector) string {
	if s.CEL == nil {
		return ""
	}
	if err := c.matcher.Compile(s.CEL.Expression); err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		return "the CEL expression does not compile: " + text
	}
	return ""
}

// failure is where a selector of a class failed first, and how often.
type failure struct {
	device  *inventory.Device
	err     error
	devices int
}

// checkMatches evaluates the selectors as the allocator does: in order, until one
// does not match.
func (c *checker) checkMatches(class *resourceapi.DeviceClass) {
	failures := make([]failure, len(class.Spec.Selectors))
	stopped := make([]int, len(class.Spec.Selectors)) // devices that a selector kept out
	matches, devices, skipped := 0, 0, 0
	for d := range c.devices {
		devices++
		if c.cel.out() {
			c.cel.skip(Finding{Kind: "DeviceClass", Name: class.Name, Field: "spec.selectors"})
			return
		}
		if c.refuses(d) {
			skipped++ // the slice is at fault
			continue
		}
		if at, err := c.firstMismatch(class.Spec.Selectors, d); at < 0 {
			matches++
		} else {
			stopped[at]++
			if f := &failures[at]; err != nil {
				if f.device == nil {
					f.device, f.err = d, err
				}
				f.devices++
			}
		}
	}
	for i, f := range failures {
		if f.device != nil {
			c.class(Warning, "class-selector-fails", class, selectorPath("spec", i),
				fmt.Sprintf("the expression fails on %d of %d devices, first on %s: %s", f.devices, devices, f.device.ID, failureText(f.err)),
				failureFix(f.err))
		}
	}
	if matches > 0 || skipped > 0 || c.selectsMolecule(class) {
		return
	}
	field, worst := "spec.selectors", slices.Max(append([]int{0}, stopped...))
	if worst > 0 {
		field = selectorPath("spec", slices.Index(stopped, worst))
	}
	problem := fmt.Sprintf("the class selects none of %d devices", devices)
	if devices == 0 {
		problem = "the class selects nothing, there are no devices"
	}
	c.class(Warning, "class-matches-nothing", class, field, problem, c.nearest(class))
}

// firstMismatch returns the position of the first selector that does not match,
// -1 where all do.
func (c *checker) firstMismatch(selectors []resourceapi.DeviceSelector, d *inventory.Device) (int, error) {
	for i, s := range selectors {
		if match, err := c.match(s, d); err != nil || !match {
			return i, err
		}
	}
	return -1, nil
}

// refuses reports whether an API server refuses the slice of a device: an attribute of
// it may fail every expression.
func (c *checker) refuses(d *inventory.Device) bool { return c.refused["ResourceSlice "+d.Slice.Name] }

// nearest guesses what the class is meant to select.
func (c *checker) nearest(class *resourceapi.DeviceClass) string {
	var drivers []string
	for _, pool := range c.pools {
		if !slices.Contains(drivers, pool.ID.Driver) {
			drivers = append(drivers, pool.ID.Driver)
		}
	}
	for _, s := range class.Spec.Selectors {
		for _, driver := range drivers {
			if strings.Contains(s.CEL.Expression, driver) {
				return "compare the expression with the attributes that " + driver + " publishes (kerf explain says which selector stops what)"
			}
		}
	}
	if len(drivers) == 0 {
		return "install the driver, or look whether it publishes ResourceSlices"
	}
	return "correct the driver's name or install it; those that publish devices are " + strings.Join(drivers, ", ")
}

func failureText(err error) string {
	var missing interface{ MissingKey() string }
	if errors.As(err, &missing) && missing.MissingKey() != "" {
		return "no attribute or capacity " + missing.MissingKey()
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

func failureFix(err error) string {
	var missing interface{ MissingKey() string }
	if errors.As(err, &missing) && missing.MissingKey() != "" {
		return fmt.Sprintf("test for the driver first (device.driver == ... &&), or for presence (%q in ...)", missing.MissingKey())
	}
	return "make the expression return true or false for every device"
}

// checkExtendedResources reports extended resources that several classes map. The
// scheduler takes the class that was, or will be, created last, then the first by name.
func (c *checker) checkExtendedResources() {
	first := map[string]*resourceapi.DeviceClass{}
	for _, class := range slices.SortedFunc(slices.Values(c.cluster.DeviceClasses), claim.CompareClasses) {
		name := class.Spec.ExtendedResourceName
		if name == nil || c.refused["DeviceClass "+class.Name] {
			continue // it may be a name that no class serves
		}
		if other := first[*name]; other != nil {
			c.class(Warning, "extended-resource-twice", class, "spec.extendedResourceName",
				fmt.Sprintf("class %s maps %s too and is the one that is used", other.Name, *name),
				"remove the field; it is needed only while users move from one class to the other")
			continue
		}
		first[*name] = class
	}
}
