// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"bytes"
	"encoding/json"
)

// Amount is a quantity as it was written, such as 80Gi. It is read where it is used, with
// care: resource.Quantity computes without end what some texts say, 1e-999999999 for one,
// and such an object must not stop everybody who watches its kind.
//
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:Pattern=`^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`
type Amount string

// UnmarshalJSON takes a number as well as a text.
func (a *Amount) UnmarshalJSON(raw []byte) error {
	if !bytes.HasPrefix(raw, []byte{'"'}) {
		*a = Amount(raw)
		return nil
	}
	var text string
	err := json.Unmarshal(raw, &text)
	*a = Amount(text)
	return err
}

// QuantityText is the text of a quantity, for those that look for quantities by type.
func (a Amount) QuantityText() string { return string(a) }
