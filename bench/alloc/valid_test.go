// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/resource"
	_ "k8s.io/kubernetes/pkg/apis/resource/install" // into legacyscheme
	"k8s.io/kubernetes/pkg/apis/resource/validation"
	gates "k8s.io/kubernetes/pkg/features"
)

// TestAttacksAreValid checks that the API server would accept all attacks: those
// of the table, the moderate ones and some that are drawn.
func TestAttacksAreValid(t *testing.T) {
	featuregatetesting.SetFeatureGatesDuringTest(t, utilfeature.DefaultFeatureGate, map[featuregate.Feature]bool{
		gates.DRADerivedAttributes:         true,
		gates.DRADeviceCompatibilityGroups: true,
		gates.DRAListTypeAttributes:        true,
		gates.DRANodeAllocatableResources:  true,
	})
	rnd := rand.New(rand.NewPCG(*fromSeed, 0))
	var plans []plan
	for _, text := range hostileRows {
		plans = append(plans, mustPlan(text))
	}
	for _, k := range kinds() {
		plans = append(plans, mustPlan(k.name+" "+k.moderate), k.draw(rnd, ordinary))
	}
	for _, p := range plans {
		t.Run(p.String(), func(t *testing.T) {
			for _, o := range p.attack().objects() {
				for _, err := range o.faults() {
					t.Errorf("%s %s: %v", o.resource, o.object.GetName(), err)
				}
			}
		})
	}
	for what, spoil := range spoilers {
		a := mustPlan("taints").attack()
		spoil(a)
		if !slices.ContainsFunc(a.objects(), func(o record) bool { return len(o.faults()) > 0 }) {
			t.Errorf("%s is not found to be invalid", what)
		}
	}
}

// spoilers make attacks that the API server refuses.
var spoilers = map[string]func(*attack){
	"a slice with too many devices": func(a *attack) {
		a.slices[0].Spec.Devices = append(a.slices[0].Spec.Devices, a.slices[1].Spec.Devices...)
	},
	"a selector that costs too much": func(a *attack) {
		a.claims[0].Spec.Devices.Requests[0].FirstAvailable[0].Selectors = []resourceapi.DeviceSelector{selecting(dear(1) + " && " + dear(2))}
	},
	"a claim with too many constraints": func(a *attack) { a.claims[0].Spec.Devices.Constraints = matching(33) },
	"a claim that is too large": func(a *attack) {
		a.claims[0].Annotations = map[string]string{"a": strings.Repeat("a", maxObject)}
	},
}

// record is an object of the API as it is written.
type record struct {
	object interface {
		runtime.Object
		Size() int
		GetName() string
	}
	internal runtime.Object
	resource string
}

func (a *attack) objects() []record {
	var all []record
	for _, s := range a.slices {
		all = append(all, record{s, &resource.ResourceSlice{}, "resourceslices"})
	}
	for _, c := range a.classes {
		all = append(all, record{c, &resource.DeviceClass{}, "deviceclasses"})
	}
	for _, r := range a.rules {
		all = append(all, record{r, &resource.DeviceTaintRule{}, "devicetaintrules"})
	}
	for _, c := range append(a.held, a.claims...) {
		all = append(all, record{c, &resource.ResourceClaim{}, "resourceclaims"})
	}
	return all
}

// maxObject is what etcd takes.
const maxObject = 1536 << 10

// faults validates an object as the API server does, and that it is not too large.
func (o *record) faults() []error {
	if n := o.object.Size(); n > maxObject {
		return []error{fmt.Errorf("has %d bytes, more than %d", n, maxObject)}
	}
	versioned := o.object.DeepCopyObject()
	legacyscheme.Scheme.Default(versioned)
	if err := legacyscheme.Scheme.Convert(versioned, o.internal, nil); err != nil {
		return []error{err}
	}
	ctx := genericapirequest.WithRequestInfo(context.Background(), &genericapirequest.RequestInfo{
		APIGroup: resourceapi.GroupName, APIVersion: "v1", Resource: o.resource, Verb: "create",
	})
	config := rest.DeclarativeValidationConfig{
		NormalizationRules: validation.ResourceNormalizationRules,
		Options:            map[string]bool{string(gates.DRAPartitionableDevicesType): false},
	}
	errs := rest.ValidateDeclarativelyWithMigrationChecks(ctx, legacyscheme.Scheme, o.internal, nil, imperative(o.internal), operation.Create, config)
	if err := errs.ToAggregate(); err != nil {
		return err.Errors()
	}
	return nil
}

// imperative is the part of the validation that is written by hand.
func imperative(object runtime.Object) field.ErrorList {
	switch o := object.(type) {
	case *resource.ResourceSlice:
		return validation.ValidateResourceSlice(o)
	case *resource.DeviceClass:
		return validation.ValidateDeviceClass(o)
	case *resource.DeviceTaintRule:
		return validation.ValidateDeviceTaintRule(o)
	case *resource.ResourceClaim:
		errs := validation.ValidateResourceClaim(o)
		if o.Status.Allocation != nil {
			before, after := o.DeepCopy(), o.DeepCopy()
			before.Status = resource.ResourceClaimStatus{}
			before.ResourceVersion, after.ResourceVersion = "1", "1"
			errs = append(errs, validation.ValidateResourceClaimStatusUpdate(after, before)...)
		}
		return errs
	}
	panic(fmt.Sprintf("no validation for %T", object))
}
