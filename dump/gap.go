// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import "fmt"

// Gap is a kind of objects of which a dump has none, or those of one namespace
// only, though the cluster may have more.
type Gap struct {
	// Resource is the kind as the API lists it, such as resourceclaims.
	Resource string `json:"resource"`
	// OnlyIn is the one namespace that was listed; empty where none was.
	OnlyIn string `json:"onlyIn,omitempty"`
	// NotServed is set where the cluster does not have the kind, so that nothing
	// is lost.
	NotServed bool `json:"notServed,omitempty"`
}

// String says what is missing and why.
func (g Gap) String() string {
	switch {
	case g.NotServed:
		return fmt.Sprintf("the cluster does not serve %s", g.Resource)
	case g.OnlyIn != "":
		return fmt.Sprintf("%s may be listed in namespace %s only", g.Resource, g.OnlyIn)
	}
	return fmt.Sprintf("%s may not be listed", g.Resource)
}
