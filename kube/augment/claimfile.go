// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package augment

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/augment"
	"kerf.dev/kerf/inventory"
)

// claimPrefix begins the names of a Guard's files, which sort first: of files that
// contradict each other they are used.
const claimPrefix = "00-claim-"

func fileName(a *v1alpha1.DeviceAttachment) string { return claimPrefix + a.Name + ".yaml" }

// claimFile puts the claim's taint on the attachment's device. Drivers and managers do
// not agree on the case of identities, so there is a rule for each that is usual.
func claimFile(driver string, a *v1alpha1.DeviceAttachment) ([]byte, error) {
	value := a.Spec.Identity.Value
	var rules []augment.Rule
	for _, spelling := range spellings(value) {
		rules = append(rules, augment.Rule{
			Select: augment.Selector{Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				resourceapi.QualifiedName(a.Spec.Identity.Attribute): {StringValue: &spelling},
			}},
			Add: augment.Addition{Taints: []resourceapi.DeviceTaint{{
				Key: inventory.ClaimTaint, Value: string(a.Spec.Claim.UID), Effect: resourceapi.DeviceTaintEffectNoSchedule,
			}}},
		})
	}
	return augment.Marshal(augment.NewDocument(driver, rules...))
}

// spellings are an identity as it is, in lower and in upper case, and with what comes
// before the first dash as it is, such as GPU-.
func spellings(identity string) []string {
	all := []string{identity, strings.ToLower(identity), strings.ToUpper(identity)}
	if prefix, rest, ok := strings.Cut(identity, "-"); ok {
		all = append(all, prefix+"-"+strings.ToLower(rest), prefix+"-"+strings.ToUpper(rest))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// keepFile writes an attachment's file unless it is there as it is to be. It appears
// complete.
func (g *Guard) keepFile(a *v1alpha1.DeviceAttachment) error {
	want, err := claimFile(g.driver(), a)
	if err != nil {
		return err
	}
	path := filepath.Join(g.directory(), fileName(a))
	if got, err := readRegular(path); err == nil && bytes.Equal(got, want) {
		return nil
	}
	// Hidden files are not read.
	temporary := filepath.Join(g.directory(), "."+fileName(a))
	if err := os.WriteFile(temporary, want, 0o644); err != nil {
		return errors.Join(err, removed(os.Remove(temporary)))
	}
	return os.Rename(temporary, path)
}

// clean deletes the files of attachments that are not wanted, and what a Guard that was
// interrupted has left.
func (g *Guard) clean(wanted map[string]bool) error {
	entries, err := os.ReadDir(g.directory())
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		if strings.HasPrefix(strings.TrimPrefix(name, "."), claimPrefix) && !wanted[name] {
			errs = append(errs, removed(os.Remove(filepath.Join(g.directory(), name))))
		}
	}
	return errors.Join(errs...)
}
