// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fabric describes a fabric: the manager that attaches its devices to machines,
// what its devices are to the cluster, and how they are handed to pods.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories={kerf}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.handOver`
// +kubebuilder:printcolumn:name="Devices",type=integer,JSONPath=`.status.devices.total`
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status.devices.free`
// +kubebuilder:printcolumn:name="Attached",type=integer,JSONPath=`.status.devices.attached`
// +kubebuilder:printcolumn:name="Endpoint",type=string,priority=1,JSONPath=`.spec.redfish.endpoint`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name must have at most 63 characters, since pools and labels carry it"
type Fabric struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +required
	Spec FabricSpec `json:"spec"`
	// +optional
	Status FabricStatus `json:"status,omitempty"`
}

// FabricList is a list of fabrics.
//
// +kubebuilder:object:root=true
type FabricList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Fabric `json:"items"`
}

// FabricSpec is what an administrator says of a fabric.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.guards) && self.guards.size() == 1 && self.guards[0] == 'Reservation' && self.models.exists(m, has(m.template) && m.template))",message="guards: Reservation alone cannot keep devices of a model with template: true; add DeviceTaintRule or Taint"
// +kubebuilder:validation:XValidation:rule="!(has(self.keepIdle) && self.keepIdle && has(self.idleDetachAfter))",message="keepIdle and idleDetachAfter exclude each other"
type FabricSpec struct {
	// Redfish is the fabric's manager: a DMTF Redfish service with a
	// CompositionService.
	//
	// +required
	Redfish Redfish `json:"redfish"`

	// Models say which devices of the fabric are offered, and as what. The first
	// that matches a device counts. Devices that match none are left alone.
	//
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	Models []DeviceModel `json:"models"`

	// Machines says which machine of the fabric a node is.
	//
	// +required
	Machines MachineMapping `json:"machines"`

	// Identity is how a device is recognised when it arrives on a node. Without,
	// the uuid is compared.
	//
	// +optional
	// +kubebuilder:default={source: UUID, attribute: "uuid"}
	Identity DeviceIdentity `json:"identity,omitzero"`

	// HandOver says how a pod ends up on the device that was attached for it.
	//
	// Reallocate: kerf-scheduler swaps the claim's allocation for the arrived
	// device; the pod is bound in the same attempt.
	// Resolve: the allocation stays; kerf-node takes the arrived device for it when
	// the pod is prepared.
	// Reschedule: the claim is failed when the device has arrived, and the next
	// attempt finds it. Works with any scheduler.
	//
	// +optional
	// +kubebuilder:default=Reallocate
	HandOver HandOver `json:"handOver,omitempty"`

	// Guards keep an arriving device from everybody but the claim that it was
	// attached for. Of several, all that can keep a device are acknowledged before
	// the manager is called. Taint and Reservation need an identity, Reservation a
	// model that is no template: what none can keep is not offered. Empty: nothing is
	// waited for.
	//
	// +optional
	// +kubebuilder:default={DeviceTaintRule, Reservation}
	// +kubebuilder:validation:MaxItems=3
	// +listType=set
	Guards []GuardKind `json:"guards,omitzero"`

	// Concurrency limits what the manager is asked to do at once.
	//
	// +optional
	// +kubebuilder:default={}
	Concurrency Concurrency `json:"concurrency,omitzero"`

	// AttachTimeout is the time from the allocation of a claim to the arrival of
	// its device on the node. Then the claim is failed, and its pod scheduled again.
	//
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be at least 1s"
	AttachTimeout *metav1.Duration `json:"attachTimeout,omitempty"`

	// IdleDetachAfter is how long a device that no claim uses stays attached, and
	// how long an attached device that nobody knows of is left alone. Absent: 5m.
	// 0s: it is detached at once.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s')",message="must not be negative"
	IdleDetachAfter *metav1.Duration `json:"idleDetachAfter,omitempty"`

	// KeepIdle leaves idle devices attached until the attachment is deleted.
	//
	// +optional
	KeepIdle bool `json:"keepIdle,omitempty"`
}

// Redfish is a Redfish service.
//
// +kubebuilder:validation:XValidation:rule="!has(self.caBundle) || self.endpoint.startsWith('https://')",message="caBundle needs an endpoint with https"
// +kubebuilder:validation:XValidation:rule="!(has(self.caBundle) && has(self.insecureSkipVerify) && self.insecureSkipVerify)",message="caBundle and insecureSkipVerify exclude each other"
// +kubebuilder:validation:XValidation:rule="!has(self.credentialsSecretRef) || self.endpoint.startsWith('https://') || has(self.allowPlainText) && self.allowPlainText",message="credentials are sent over https only, unless allowPlainText is true"
type Redfish struct {
	// Endpoint is the service's URL without path, e.g. https://fabric.example.com.
	//
	// +required
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHost() != ''",message="must be an http or https URL with a host"
	Endpoint string `json:"endpoint"`

	// CredentialsSecretRef names a Secret of type kubernetes.io/basic-auth with the
	// user name and password for a session. They are sent to endpoints that the
	// Secret names in its annotation fabric.kerf.dev/endpoint, and nowhere else. Its
	// key ca.crt, if it has one, counts instead of caBundle. Absent: no
	// authentication.
	//
	// +optional
	CredentialsSecretRef *SecretReference `json:"credentialsSecretRef,omitempty"`

	// CABundle are the certificates, PEM, that the service's certificate must be
	// signed by. Absent: those of the controller's system.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1048576
	CABundle []byte `json:"caBundle,omitempty"`

	// InsecureSkipVerify accepts any certificate of the service. With credentials,
	// their Secret must permit it with the annotation
	// fabric.kerf.dev/insecure-skip-verify: "true".
	//
	// +optional
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`

	// AllowPlainText permits credentials over http, to an endpoint with http that
	// their Secret names.
	//
	// +optional
	AllowPlainText bool `json:"allowPlainText,omitempty"`

	// Timeout of one call of the manager, which may be several requests. Less than 1m
	// is taken for 1m: managers are slow.
	//
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('10m')",message="must be at least 1s and at most 10m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// DeviceModel says what devices of the fabric are to the cluster.
//
// +kubebuilder:validation:XValidation:rule="(has(self.attributes) ? self.attributes.size() : 0) + (has(self.capacity) ? self.capacity.size() : 0) <= 29",message="attributes and capacity must be at most 29 together: a device in a slice has at most 32, and the controller adds 3"
type DeviceModel struct {
	// Name identifies the model here and in the names of templates.
	//
	// +required
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Match selects devices by what the manager says of them.
	//
	// +required
	Match ModelMatch `json:"match"`

	// Driver is the DRA driver that publishes such a device once it is on a node.
	// The fabric's free devices are published for it, too.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Driver string `json:"driver"`

	// Attributes are what the driver will say of the device, so that the selectors
	// of classes and claims find it while it is free. A device that arrives and has
	// another value, or none, is not given to the claim, and not offered any more.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Attributes map[string]AttributeValue `json:"attributes,omitempty"`

	// Capacity is what the driver will say of the device's capacity, exactly.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Capacity map[string]Amount `json:"capacity,omitempty"`

	// Template offers as many devices without identity as are free, instead of
	// each of them. Which one is attached is decided when a claim is allocated.
	//
	// +optional
	Template bool `json:"template,omitempty"`
}

// ModelMatch selects devices. All fields that are set must be equal, regardless of
// case.
//
// +kubebuilder:validation:XValidation:rule="has(self.manufacturer) || has(self.model) || has(self.partNumber)",message="at least one of manufacturer, model and partNumber is required"
type ModelMatch struct {
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Manufacturer string `json:"manufacturer,omitempty"`
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	PartNumber string `json:"partNumber,omitempty"`
}

// AttributeValue is the value of an attribute, as in a ResourceSlice. One field is
// set.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type AttributeValue struct {
	// +optional
	Int *int64 `json:"int,omitempty"`
	// +optional
	Bool *bool `json:"bool,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=64
	String *string `json:"string,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Version *string `json:"version,omitempty"`
}

// MachineMapping says which machine a node is. One field is set.
//
// +kubebuilder:validation:XValidation:rule="[has(self.label), has(self.systemUUID), has(self.nodes)].filter(x, x).size() == 1",message="exactly one of label, systemUUID and nodes is required"
type MachineMapping struct {
	// Label is a label of nodes whose value is the machine's name, serial number or
	// host name.
	//
	// +optional
	Label *MachineLabel `json:"label,omitempty"`
	// SystemUUID compares the machine's UUID with the one that the kubelet reports
	// in the node's status.
	//
	// +optional
	SystemUUID *SystemUUID `json:"systemUUID,omitempty"`
	// Nodes lists the machines.
	//
	// +optional
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	// +listType=map
	// +listMapKey=node
	Nodes []NodeMachine `json:"nodes,omitempty"`
}

// MachineLabel maps nodes by a label.
type MachineLabel struct {
	// Key of the label.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`
	// Property of the machine that the label's value is.
	//
	// +optional
	// +kubebuilder:default=Name
	Property MachineProperty `json:"property,omitempty"`
}

// MachineProperty is a property of machines.
//
// +kubebuilder:validation:Enum=Name;SerialNumber;HostName
type MachineProperty string

// Properties of machines.
const (
	MachineName         MachineProperty = "Name"
	MachineSerialNumber MachineProperty = "SerialNumber"
	MachineHostName     MachineProperty = "HostName"
)

// SystemUUID maps nodes by the UUID of the machine.
type SystemUUID struct{}

// NodeMachine maps one node.
type NodeMachine struct {
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`
	// Machine is the manager's reference of the machine, e.g. /redfish/v1/Systems/1.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Machine string `json:"machine"`
}

// DeviceIdentity says how a device is recognised on a node.
type DeviceIdentity struct {
	// Source is the property of the fabric's device.
	//
	// +optional
	// +kubebuilder:default=UUID
	Source IdentitySource `json:"source,omitempty"`
	// Attribute of the node's device that has the same value, regardless of case.
	// Without domain it is one of the model's driver.
	//
	// +optional
	// +kubebuilder:default=uuid
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=96
	Attribute string `json:"attribute,omitempty"`
	// TrimPrefix is taken from the attribute's value before it is compared, e.g.
	// "GPU-".
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32
	TrimPrefix string `json:"trimPrefix,omitempty"`
}

// IdentitySource is a property of the fabric's devices.
//
// +kubebuilder:validation:Enum=UUID;SerialNumber;PCIAddress
type IdentitySource string

// Sources of identity. A PCI address exists only once the device is on a node.
const (
	IdentityUUID         IdentitySource = "UUID"
	IdentitySerialNumber IdentitySource = "SerialNumber"
	IdentityPCIAddress   IdentitySource = "PCIAddress"
)

// HandOver says how a pod ends up on its device.
//
// +kubebuilder:validation:Enum=Reallocate;Resolve;Reschedule
type HandOver string

// Modes of handing a device over.
const (
	HandOverReallocate HandOver = "Reallocate"
	HandOverResolve    HandOver = "Resolve"
	HandOverReschedule HandOver = "Reschedule"
)

// GuardKind keeps arriving devices from others.
//
// +kubebuilder:validation:Enum=Taint;DeviceTaintRule;Reservation
type GuardKind string

const (
	// GuardTaint is a taint that the driver, or the node's gateway, puts on the
	// device before it is published for the first time.
	GuardTaint GuardKind = "Taint"
	// GuardDeviceTaintRule is a DeviceTaintRule for the driver's devices on the
	// node, narrowed to the device when it is there.
	GuardDeviceTaintRule GuardKind = "DeviceTaintRule"
	// GuardReservation has kerf-scheduler keep the device whose identity the fabric's
	// slices name.
	GuardReservation GuardKind = "Reservation"
)

// Concurrency limits operations of the manager.
//
// +kubebuilder:validation:XValidation:rule="!has(self.perMachine) || !has(self.operations) || self.perMachine <= self.operations",message="perMachine must not be greater than operations"
type Concurrency struct {
	// Operations at once on the fabric. The manager's own limit counts where it is
	// lower.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	Operations *int32 `json:"operations,omitempty"`
	// PerMachine is the number of operations at once on one machine.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	PerMachine *int32 `json:"perMachine,omitempty"`
}

// FabricStatus is what the controller sees of a fabric.
type FabricStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions: Ready, Reachable, Deleting.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Devices counts the devices that match a model.
	//
	// +optional
	Devices DeviceCounts `json:"devices"`
	// Models are those with devices that arrived and were not what the model promises.
	// It begins anew when the spec changes.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	Models []ModelStatus `json:"models,omitempty"`
	// Nodes counts the nodes that are machines of the fabric.
	//
	// +optional
	Nodes int32 `json:"nodes"`
	// Service is the manager that answered last. While there are attachments, the
	// endpoint can be changed only to another address of this one.
	//
	// +optional
	Service *ServiceReference `json:"service,omitempty"`
	// LastInventoryTime is when the manager was read last.
	//
	// +optional
	LastInventoryTime *metav1.Time `json:"lastInventoryTime,omitempty"`
}

// ModelStatus is what was found out about a model.
type ModelStatus struct {
	// Name is the model's.
	//
	// +required
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`
	// Conditions: AsPromised. Its observedGeneration is that of the spec in which the
	// devices are withheld.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Withheld are the devices that arrived and were not what the model promises. They are
	// not offered for it until the spec changes. Where there are 256 it is the model that
	// is wrong, and no device of it is offered.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +listType=map
	// +listMapKey=device
	Withheld []WithheldDevice `json:"withheld,omitempty"`
}

// WithheldDevice is a device that is not offered for a model.
type WithheldDevice struct {
	// Device is the manager's reference of the device.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Device string `json:"device"`
	// Difference says where it arrived, as what, and in what that is not what the model
	// promises.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Difference string `json:"difference,omitempty"`
}

// ModelAsPromised is a model's condition. It is false when a device arrived that was not
// what the model promises, and not there otherwise.
const ModelAsPromised = "AsPromised"

// ServiceReference names a manager.
type ServiceReference struct {
	// Endpoint is where it answered.
	//
	// +required
	// +kubebuilder:validation:MaxLength=2048
	Endpoint string `json:"endpoint"`
	// UUID is the service's own, empty where it tells none.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	UUID string `json:"uuid,omitempty"`
}

// AttachmentsFinalizer keeps a Fabric until its devices are free again.
const AttachmentsFinalizer = "fabric.kerf.dev/attachments"

// SecretEndpoint is the annotation of a Secret that says where its user name and
// password may be sent: one or more URLs such as https://fabric.example.com, with
// spaces between them. Who may write Fabrics cannot have them sent elsewhere.
const SecretEndpoint = "fabric.kerf.dev/endpoint"

// SecretInsecure is the annotation of a Secret which, if it is "true", permits that it
// is sent to a service whatever the service's certificate is.
const SecretInsecure = "fabric.kerf.dev/insecure-skip-verify"

const (
	// FabricDeleting is true while a deleted Fabric waits for its attachments to end.
	FabricDeleting = "Deleting"
	// FabricReady is true when the fabric's devices are published.
	FabricReady = "Ready"
	// FabricReachable is true when the manager answered last time.
	FabricReachable = "Reachable"
)

// DeviceCounts counts devices.
type DeviceCounts struct {
	// +optional
	Total int32 `json:"total"`
	// Free devices can be attached.
	//
	// +optional
	Free int32 `json:"free"`
	// Attached devices are at machines.
	//
	// +optional
	Attached int32 `json:"attached"`
	// Unavailable devices are broken, busy, reserved by somebody else, or withheld.
	//
	// +optional
	Unavailable int32 `json:"unavailable"`
}
