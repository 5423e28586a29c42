// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CompoundPolicy says which devices of a node's drivers (atoms) are handed out together, as
// one device (a molecule).
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories={kerf}
// +kubebuilder:printcolumn:name="Driver",type=string,JSONPath=`.spec.driver`
// +kubebuilder:printcolumn:name="Atoms",type=string,JSONPath=`.spec.atoms[*].name`
// +kubebuilder:printcolumn:name="Molecules",type=string,JSONPath=`.spec.molecules[*].name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name must have at most 63 characters, since pools carry it"
type CompoundPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec CompoundPolicySpec `json:"spec"`
}

// CompoundPolicyList is a list of policies.
//
// +kubebuilder:object:root=true
type CompoundPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []CompoundPolicy `json:"items"`
}

// DefaultDriver is the driver of molecules where the policy names none.
const DefaultDriver = "compound.kerf.dev"

// CompoundPolicySpec is what an administrator wants.
//
// +kubebuilder:validation:XValidation:rule="!has(self.molecules) || self.molecules.all(m, !self.atoms.exists(a, a.name == m.name))",message="a molecule must not have the name of an atom"
type CompoundPolicySpec struct {
	// Driver is the driver that molecules are published for, and atoms that are
	// published alone.
	//
	// +optional
	// +kubebuilder:default="compound.kerf.dev"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Driver string `json:"driver,omitempty"`

	// Atoms say which devices of drivers the policy takes. Their drivers' own pools do
	// not have them any more. A device is the first atom that it matches.
	//
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	Atoms []Atom `json:"atoms"`

	// Molecules say which atoms are handed out together.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=name
	Molecules []Molecule `json:"molecules,omitempty"`
}

// Atom selects devices of a driver.
type Atom struct {
	// Name is what molecules call these devices. One that is published alone has it in
	// the attribute compound.kerf.dev/rule.
	//
	// +required
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Driver publishes the devices.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Driver string `json:"driver"`

	// Selector is a CEL expression over a device, as in a DeviceClass. Absent: all
	// devices of the driver.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=10240
	Selector string `json:"selector,omitempty"`

	// Alone publishes each of these devices alone, too. Otherwise they are handed out as
	// members of molecules only.
	//
	// +optional
	Alone bool `json:"alone,omitempty"`

	// Keep names the attributes and capacities that are published of these devices. A
	// name without a domain is in that of the driver. Absent: all.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=96
	// +listType=set
	Keep []string `json:"keep,omitempty"`
}

// Molecule says which atoms are handed out as one device: each combination of members
// that share attributes, or those that are listed.
//
// +kubebuilder:validation:XValidation:rule="has(self.members) != has(self.listed)",message="exactly one of members and listed is required"
// +kubebuilder:validation:XValidation:rule="!has(self.share) || has(self.members)",message="share is for members"
type Molecule struct {
	// Name is the value of the molecules' attribute compound.kerf.dev/rule.
	//
	// +required
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Share names attributes of which all members of a molecule have a value in common,
	// such as resource.kubernetes.io/pcieRoot. A name without a domain is in that of each
	// member's driver. Absent: any atoms of the node are combined.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=96
	// +listType=set
	Share []string `json:"share,omitempty"`

	// Members say how many atoms of which name a molecule has.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=atom
	Members []Member `json:"members,omitempty"`

	// Listed are molecules whose atoms are named. On a node that lacks one of them, the
	// molecule does not exist.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +listType=atomic
	Listed []Listed `json:"listed,omitempty"`
}

// Member is a number of atoms.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.count) && has(self.all) && self.all)",message="count and all exclude each other"
type Member struct {
	// Atom is the name of the atoms.
	//
	// +required
	// +kubebuilder:validation:MaxLength=40
	Atom string `json:"atom"`

	// Count of atoms. Absent: 1.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=32
	Count int32 `json:"count,omitempty"`

	// All atoms of this name that share the attributes with each other.
	//
	// +optional
	All bool `json:"all,omitempty"`
}

// Listed is one molecule by its atoms.
type Listed struct {
	// +required
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=32
	// +listType=atomic
	Devices []ListedDevice `json:"devices"`
}

// ListedDevice names an atom.
type ListedDevice struct {
	// Atom is the name in the policy of the device.
	//
	// +required
	// +kubebuilder:validation:MaxLength=40
	Atom string `json:"atom"`

	// Pool of the device. Absent: any pool of the driver on the node.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Pool string `json:"pool,omitempty"`

	// Device is the name that the driver gives it.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Device string `json:"device"`
}
