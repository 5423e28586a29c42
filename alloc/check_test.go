// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// checkFixture is a world and a correct allocation in it, for tests to break.
type checkFixture struct {
	*World
	results []resourceapi.AllocationResult
}

const (
	shareA = types.UID("11111111-1111-4111-8111-111111111111")
	shareB = types.UID("22222222-2222-4222-8222-222222222222")
)

func newCheckFixture() *checkFixture {
	f := &checkFixture{World: &World{
		Node: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "z1"}}},
		Classes: []*resourceapi.DeviceClass{
			{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourceapi.DeviceClassSpec{
				Selectors: []resourceapi.DeviceSelector{celSelector(exprKindX)},
				Config:    []resourceapi.DeviceClassConfiguration{{DeviceConfiguration: configuration("gpu")}}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "any"}},
		},
	}}
	f.addSlices()
	f.addClaims()
	return f
}

func (f *checkFixture) addSlices() {
	slice := func(name, pool string, n int64) *resourceapi.ResourceSlice {
		s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Spec.Driver, s.Spec.Pool = "a.example.com", resourceapi.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: n}
		f.Slices = append(f.Slices, s)
		return s
	}
	device := func(s *resourceapi.ResourceSlice, name, kind string, numa int64) *resourceapi.Device {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"std.example.com/kind": {StringValue: &kind}, "std.example.com/size": {IntValue: ptr(int64(1))}, "numa": {IntValue: &numa}}})
		return &s.Spec.Devices[len(s.Spec.Devices)-1]
	}
	cards := slice("cards", "cards", 2)
	cards.Spec.NodeName = ptr("n1")
	for i, numa := range []int64{0, 0, 1} {
		d := device(cards, "half"+string(rune('0'+i)), "x", numa)
		d.ConsumesCounters = []resourceapi.DeviceCounterConsumption{{CounterSet: "card", Counters: map[string]resourceapi.Counter{"m": {Value: units(2)}}}}
	}
	device(cards, "tainted", "x", 0).Taints = []resourceapi.DeviceTaint{{Key: "k0", Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	sets := slice("cards-counters", "cards", 2)
	sets.Spec.NodeName = ptr("n1")
	sets.Spec.SharedCounters = []resourceapi.CounterSet{{Name: "card", Counters: map[string]resourceapi.Counter{"m": {Value: units(4)}}}}

	net := slice("net", "net", 1)
	net.Spec.NodeSelector = selector("zone", "z1")
	shared := device(net, "nic", "y", 0)
	shared.AllowMultipleAllocations = ptr(true)
	shared.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"bw": {Value: units(4), RequestPolicy: &resourceapi.CapacityRequestPolicy{
		Default: ptr(units(1)), ValidRange: &resourceapi.CapacityRequestPolicyRange{Min: ptr(units(1)), Step: ptr(units(1)), Max: ptr(units(3))}}}}
	fabric := device(net, "fabric", "z", 1)
	fabric.BindingConditions, fabric.BindingFailureConditions = []string{"attached"}, []string{"failed"}
	net.Spec.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
	f.Node.Status.DeclaredFeatures = []string{"DRAOptionalNodeOperations"}
}

// addClaims asks for two cards on one NUMA node, and for a share of a NIC or a
// fabric device in another claim.
func (f *checkFixture) addClaims() {
	claim := func(name string) *resourceapi.ResourceClaim {
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		f.Claims = append(f.Claims, c)
		return c
	}
	one := func(name, class string, count int64) resourceapi.DeviceSubRequest {
		return resourceapi.DeviceSubRequest{Name: name, DeviceClassName: class, AllocationMode: resourceapi.DeviceAllocationModeExactCount, Count: count}
	}
	cards := claim("cards")
	cards.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpus", Exactly: exactly(one("", "gpu", 2))}}
	cards.Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr(resourceapi.FullyQualifiedName("a.example.com/numa"))}}
	cards.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{Requests: []string{"gpus"}, DeviceConfiguration: configuration("claim")}}

	net := claim("net")
	share, fabric := one("share", "any", 1), one("fabric", "any", 1)
	share.Selectors = []resourceapi.DeviceSelector{celSelector(exprShared)}
	share.Capacity = &resourceapi.CapacityRequirements{Requests: map[resourceapi.QualifiedName]resource.Quantity{"bw": resource.MustParse("1500m")}}
	share.Tolerations = []resourceapi.DeviceToleration{{Operator: resourceapi.DeviceTolerationOpExists}}
	net.Spec.Devices.Requests = []resourceapi.DeviceRequest{
		{Name: "nic", FirstAvailable: []resourceapi.DeviceSubRequest{share, fabric}},
		{Name: "more", FirstAvailable: []resourceapi.DeviceSubRequest{share, fabric}},
	}
	net.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{
		{Requests: []string{"nic/fabric"}, DeviceConfiguration: configuration("unused")},
		{Requests: []string{"nic/share"}, DeviceConfiguration: configuration("used")},
	}

	picked := func(request, pool, device string) resourceapi.DeviceRequestAllocationResult {
		return resourceapi.DeviceRequestAllocationResult{Request: request, Driver: "a.example.com", Pool: pool, Device: device}
	}
	nic, more := picked("nic/share", "net", "nic"), picked("more/fabric", "net", "fabric")
	nic.ShareID, nic.ConsumedCapacity = ptr(shareA), map[resourceapi.QualifiedName]resource.Quantity{"bw": units(2)}
	nic.Tolerations = share.Tolerations
	more.BindingConditions, more.BindingFailureConditions = []string{"attached"}, []string{"failed"}
	nic.SkipNodeOperations = []resourceapi.SkipNodeOperation{resourceapi.SkipNodeOperationAll}
	more.SkipNodeOperations = nic.SkipNodeOperations
	f.results = []resourceapi.AllocationResult{
		{
			Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{picked("gpus", "cards", "half0"), picked("gpus", "cards", "half1")},
				Config: []resourceapi.DeviceAllocationConfiguration{
					{Source: resourceapi.AllocationConfigSourceClass, DeviceConfiguration: configuration("gpu")},
					{Source: resourceapi.AllocationConfigSourceClaim, DeviceConfiguration: configuration("claim")},
				},
			},
			NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
				{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n1"}}}}}},
		},
		{
			Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{nic, more},
				Config: []resourceapi.DeviceAllocationConfiguration{
					{Source: resourceapi.AllocationConfigSourceClaim, Requests: []string{"nic/share"}, DeviceConfiguration: configuration("used")},
				},
			},
			NodeSelector: selector("zone", "z1"),
		},
	}
}

// cards and net are the results of the two claims.
func (f *checkFixture) cards() []resourceapi.DeviceRequestAllocationResult {
	return f.results[0].Devices.Results
}

func (f *checkFixture) net() []resourceapi.DeviceRequestAllocationResult {
	return f.results[1].Devices.Results
}

func (f *checkFixture) device(slice, device int) *resourceapi.Device {
	return &f.Slices[slice].Spec.Devices[device]
}

func (f *checkFixture) gpus() *resourceapi.ExactDeviceRequest {
	return f.Claims[0].Spec.Devices.Requests[0].Exactly
}

// hold gives a device to another claim before.
func (f *checkFixture) hold(pool, device string, share *types.UID, consumed int) {
	result := resourceapi.DeviceRequestAllocationResult{Request: "r", Driver: "a.example.com", Pool: pool, Device: device, ShareID: share}
	if share != nil {
		result.ConsumedCapacity = map[resourceapi.QualifiedName]resource.Quantity{"bw": units(consumed)}
	}
	f.Held = append(f.Held, &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: device, UID: types.UID(device)},
		Status: resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{
			Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}}}},
	})
}

func TestCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		breaks func(f *checkFixture)
		want   string // in some violation; empty for none
	}{
		"correct":                 {func(*checkFixture) {}, ""},
		"result missing":          {func(f *checkFixture) { f.results = f.results[:1] }, "2 claims have 1 results"},
		"unknown request":         {func(f *checkFixture) { f.cards()[0].Request = "cpus" }, `no request "cpus"`},
		"unknown class":           {func(f *checkFixture) { f.gpus().DeviceClassName = "none" }, `no device class "none"`},
		"whole prioritized list":  {func(f *checkFixture) { f.net()[0].Request = "nic" }, `no request "nic"`},
		"unknown pool":            {func(f *checkFixture) { f.cards()[0].Pool = "none" }, "reaches no pool"},
		"unknown device":          {func(f *checkFixture) { f.cards()[0].Device = "none" }, "reaches no device"},
		"device of other node":    {func(f *checkFixture) { f.Slices[0].Spec.NodeName = ptr("n2") }, "node n1 reaches no"},
		"incomplete pool":         {func(f *checkFixture) { f.Slices[2].Spec.Pool.ResourceSliceCount = 2 }, "pool a.example.com/net is not usable: Incomplete"},
		"too few":                 {func(f *checkFixture) { f.gpus().Count = 3 }, "2 devices were allocated, not 3"},
		"too many":                {func(f *checkFixture) { f.gpus().Count = 1 }, "2 devices were allocated, not 1"},
		"unknown mode":            {func(f *checkFixture) { f.gpus().AllocationMode = "Some" }, `no mode "Some"`},
		"defaults":                {func(f *checkFixture) { f.gpus().AllocationMode = "" }, ""},
		"no alternative":          {func(f *checkFixture) { f.results[1].Devices.Results = f.net()[:1] }, "no device of any alternative was allocated for request more"},
		"class does not match":    {func(f *checkFixture) { f.device(0, 0).Attributes["std.example.com/kind"] = strAttr("y") }, `half0 does not match "device.attributes`},
		"request does not match":  {func(f *checkFixture) { f.gpus().Selectors = []resourceapi.DeviceSelector{celSelector(exprBig)} }, "does not match"},
		"selector fails":          {func(f *checkFixture) { f.gpus().Selectors = []resourceapi.DeviceSelector{celSelector(exprRare)} }, "no such key"},
		"selector of no kind":     {func(f *checkFixture) { f.gpus().Selectors = []resourceapi.DeviceSelector{{}} }, "selector without CEL expression"},
		"tainted":                 {func(f *checkFixture) { f.cards()[0].Device = "tainted" }, "has the taint k0=:NoSchedule"},
		"twice for a request":     {func(f *checkFixture) { f.cards()[1] = f.cards()[0] }, "half0 was allocated twice for request gpus"},
		"held by another claim":   {func(f *checkFixture) { f.hold("cards", "half0", nil, 0) }, "already held by [other/half0]"},
		"counter exceeded":        {func(f *checkFixture) { f.hold("cards", "half2", nil, 0) }, "spec.sharedCounters[card].counters[m]: the devices draw 4, only 2 is free"},
		"counter set closed":      {func(f *checkFixture) { f.hold("cards", "gone", nil, 0) }, "what is taken of it is not known"},
		"tolerations not copied":  {func(f *checkFixture) { f.net()[0].Tolerations = nil }, "results[0].tolerations"},
		"conditions not copied":   {func(f *checkFixture) { f.net()[1].BindingConditions = nil }, "results[1].bindingConditions"},
		"failures not copied":     {func(f *checkFixture) { f.net()[1].BindingFailureConditions = []string{"x"} }, "results[1].bindingFailureConditions"},
		"skips not copied":        {func(f *checkFixture) { f.net()[1].SkipNodeOperations = nil }, "results[1].skipNodeOperations"},
		"node cannot skip":        {func(f *checkFixture) { f.Node.Status.DeclaredFeatures = nil }, "skips node operations, which node n1 does not support"},
		"admin access made up":    {func(f *checkFixture) { f.cards()[0].AdminAccess = ptr(true) }, "adminAccess: is true, the request says false"},
		"no share ID":             {func(f *checkFixture) { f.net()[0].ShareID = nil }, "given out in shares"},
		"share ID not a UUID":     {func(f *checkFixture) { f.net()[0].ShareID = ptr(types.UID("share-1")) }, "is not a UUID"},
		"share of a whole":        {func(f *checkFixture) { f.cards()[0].ShareID = ptr(shareB) }, "half0 is only given out as a whole"},
		"capacity of a whole":     {func(f *checkFixture) { f.cards()[0].ConsumedCapacity = f.net()[0].ConsumedCapacity }, "consumedCapacity: is set"},
		"capacity not rounded up": {func(f *checkFixture) { f.net()[0].ConsumedCapacity["bw"] = resource.MustParse("1500m") }, "consumedCapacity[bw]: is 1500m"},
		"capacity left out":       {func(f *checkFixture) { f.net()[0].ConsumedCapacity = nil }, "has 0 entries, the device has 1"},
		"capacity used up":        {func(f *checkFixture) { f.hold("net", "nic", ptr(shareB), 3) }, "the shares of a.example.com/net/nic exceed its 4 of bw"},
		"capacity enough":         {func(f *checkFixture) { f.hold("net", "nic", ptr(shareB), 2) }, ""},
		"capacity over maximum":   {func(f *checkFixture) { f.nicBandwidth("3500m") }, "see its request policy"},
		"capacity not there":      {func(f *checkFixture) { f.gpus().Capacity = f.share().Capacity }, "has no capacity bw"},
		"taken as a whole before": {func(f *checkFixture) { f.hold("net", "nic", nil, 0) }, "already held by"},
		"constraint violated":     {func(f *checkFixture) { f.cards()[1].Device = "half2" }, "no value of a.example.com/numa is common"},
		"attribute missing":       {func(f *checkFixture) { delete(f.device(0, 0).Attributes, "numa") }, "half0 has no value of a.example.com/numa"},
		"attribute of other type": {func(f *checkFixture) { f.device(0, 0).Attributes["numa"] = strAttr("0") }, "no value of a.example.com/numa is common"},
		"lists in common": {func(f *checkFixture) {
			f.device(0, 0).Attributes["numa"] = resourceapi.DeviceAttribute{IntValues: []int64{3, 0}}
		}, ""},
		"not distinct": {func(f *checkFixture) {
			c := &f.Claims[0].Spec.Devices.Constraints[0]
			c.DistinctAttribute, c.MatchAttribute = c.MatchAttribute, nil
		}, "half0 and a.example.com/cards/half1 both have int 0"},
		"constraint of no kind":      {func(f *checkFixture) { f.Claims[0].Spec.Devices.Constraints[0].MatchAttribute = nil }, "is of no known kind"},
		"constraint for others":      {func(f *checkFixture) { f.limitFabric("more") }, "fabric has no value"},
		"constraint for alternative": {func(f *checkFixture) { f.limitFabric("more/fabric") }, "fabric has no value"},
		"constraint not chosen":      {func(f *checkFixture) { f.limitFabric("more/share") }, ""},
		"derived attribute": {func(f *checkFixture) {
			f.gpus().DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: "a.example.com/numa", Expression: deriveSize}}
			f.cards()[1].Device = "half2"
		}, ""},
		"derived attribute fails": {func(f *checkFixture) {
			f.gpus().DerivedAttributes = []resourceapi.DeviceDerivedAttribute{{Name: "a.example.com/numa", Expression: deriveRare}}
		}, "deriving a.example.com/numa for a.example.com/cards/half0 failed"},
		"node selector missing":    {func(f *checkFixture) { f.results[0].NodeSelector = nil }, "nodeSelector: is not set"},
		"node selector of node":    {func(f *checkFixture) { f.results[1].NodeSelector = f.results[0].NodeSelector }, "lacks the requirement"},
		"node selector widened":    {func(f *checkFixture) { f.results[1].NodeSelector = selector("zone", "z1", "z2") }, "which no device has"},
		"node selector made up":    {func(f *checkFixture) { f.Slices[2].Spec.NodeSelector, f.Slices[2].Spec.AllNodes = nil, ptr(true) }, "every node reaches the devices"},
		"binds to node":            {func(f *checkFixture) { f.device(2, 1).BindsToNode = ptr(true) }, "lacks the requirement {metadata.name"},
		"class config missing":     {func(f *checkFixture) { f.dropConfig(0, 0) }, "config: has 1 entries, not 2"},
		"config of other source":   {func(f *checkFixture) { f.results[0].Devices.Config[0].Source = "FromClaim" }, "config[0].source"},
		"config changed":           {func(f *checkFixture) { f.results[0].Devices.Config[1].DeviceConfiguration = configuration("x") }, "config[1]: is not the configuration"},
		"config for other request": {func(f *checkFixture) { f.results[1].Devices.Config[0].Requests = []string{"more"} }, "config[0].requests"},
		"mixed alternatives": {func(f *checkFixture) {
			f.net()[1].Request = "nic/fabric"
		}, "mixes the alternatives nic/share and nic/fabric"},
		"share ID used twice": {func(f *checkFixture) {
			f.net()[1] = f.net()[0]
			f.net()[1].Request = "more/share"
		}, "is also the ID of another share"},
		"two shares": {func(f *checkFixture) {
			f.net()[1] = *f.net()[0].DeepCopy()
			f.net()[1].Request, f.net()[1].ShareID = "more/share", ptr(shareB)
		}, ""},
		"two shares too large": {func(f *checkFixture) {
			f.nicBandwidth("3")
			f.net()[0].ConsumedCapacity["bw"] = units(3)
			f.net()[1] = *f.net()[0].DeepCopy()
			f.net()[1].Request, f.net()[1].ShareID = "more/share", ptr(shareB)
		}, "the shares of a.example.com/net/nic exceed"},
		"in two claims": {func(f *checkFixture) {
			f.Claims = append(f.Claims, f.Claims[0])
			f.results = append(f.results, f.results[0])
		}, "half0 was already allocated for claim ns/cards"},
		"in two requests": {func(f *checkFixture) {
			devices := &f.Claims[0].Spec.Devices
			f.gpus().Count, devices.Config[0].Requests = 1, nil
			devices.Requests = append(devices.Requests, *devices.Requests[0].DeepCopy())
			devices.Requests[1].Name = "again"
			f.cards()[1].Device, f.cards()[1].Request = "half0", "again"
		}, "half0 was already allocated for request gpus"},
		"admin access to a held device": {func(f *checkFixture) {
			f.hold("cards", "half0", nil, 0)
			f.hold("cards", "half2", nil, 0)
			f.gpus().AdminAccess = ptr(true)
			f.cards()[0].AdminAccess, f.cards()[1].AdminAccess = ptr(true), ptr(true)
		}, ""},
		"groups disagree": {func(f *checkFixture) {
			f.device(0, 0).ConsumesCounters[0].CompatibilityGroups = []string{"a", "b"}
			f.device(0, 1).ConsumesCounters[0].CompatibilityGroups = []string{"c"}
		}, "shares no compatibility group"},
		"groups agree": {func(f *checkFixture) {
			f.device(0, 0).ConsumesCounters[0].CompatibilityGroups = []string{"a", "b"}
			f.device(0, 1).ConsumesCounters[0].CompatibilityGroups = []string{"b"}
		}, ""},
		"no group beside a group": {func(f *checkFixture) {
			f.device(0, 0).ConsumesCounters[0].CompatibilityGroups = []string{"a"}
		}, "shares no compatibility group"},
		"all but one": {func(f *checkFixture) {
			f.gpus().AllocationMode, f.gpus().Count = resourceapi.DeviceAllocationModeAll, 0
		}, "all devices are asked for and a.example.com/cards/half2 was not allocated"},
		"all": {func(f *checkFixture) {
			f.gpus().AllocationMode, f.gpus().Count = resourceapi.DeviceAllocationModeAll, 0
			f.Slices[0].Spec.Devices = f.Slices[0].Spec.Devices[:2]
		}, ""},
		"all of nothing": {func(f *checkFixture) {
			f.gpus().AllocationMode, f.gpus().Count = resourceapi.DeviceAllocationModeAll, 0
			f.Slices[0].Spec.Devices = nil
			f.results[0].Devices.Results = nil
		}, "all devices are asked for and none was allocated"},
		"all while incomplete": {func(f *checkFixture) {
			f.gpus().AllocationMode, f.gpus().Count = resourceapi.DeviceAllocationModeAll, 0
			f.Slices[2].Spec.Pool.ResourceSliceCount = 2
		}, "all devices are asked for while pool a.example.com/net is not usable"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newCheckFixture()
			tc.breaks(f)
			violations := Check(f.View(), f.Claims, f.Class, tableMatcher{}, f.Containers, f.results)
			expectViolation(t, violations, tc.want)
		})
	}
}

func strAttr(value string) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{StringValue: &value}
}

func (f *checkFixture) share() *resourceapi.DeviceSubRequest {
	return &f.Claims[1].Spec.Devices.Requests[0].FirstAvailable[0]
}

func (f *checkFixture) nicBandwidth(amount string) {
	f.share().Capacity.Requests["bw"] = resource.MustParse(amount)
}

// limitFabric wants an attribute of a request that the fabric device does not
// have.
func (f *checkFixture) limitFabric(request string) {
	f.Claims[1].Spec.Devices.Constraints = []resourceapi.DeviceConstraint{{
		Requests: []string{request}, MatchAttribute: ptr(resourceapi.FullyQualifiedName("a.example.com/missing"))}}
}

func (f *checkFixture) dropConfig(claim, entry int) {
	config := &f.results[claim].Devices.Config
	*config = append((*config)[:entry:entry], (*config)[entry+1:]...)
}

func expectViolation(t *testing.T, violations []Violation, want string) {
	t.Helper()
	var all []string
	for _, v := range violations {
		all = append(all, v.String())
	}
	text := strings.Join(all, "\n")
	if want == "" && text != "" {
		t.Errorf("unexpected violations:\n%s", text)
	}
	if !strings.Contains(text, want) {
		t.Errorf("no violation has %q:\n%s", want, text)
	}
}

func TestCheckCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		breaks func(f *checkFixture)
		want   string
	}{
		"correct":     {func(*checkFixture) {}, ""},
		"device gone": {func(f *checkFixture) { f.Slices[0].Spec.Devices = f.Slices[0].Spec.Devices[1:] }, "no ResourceSlice publishes a.example.com/cards/half0"},
		"pool gone":   {func(f *checkFixture) { f.Slices = f.Slices[:2] }, "no ResourceSlice publishes a.example.com/net/nic"},
		"only in an old generation": {func(f *checkFixture) {
			newer := f.Slices[2].DeepCopy()
			newer.Name, newer.Spec.Pool.Generation, newer.Spec.Devices = "newer", 2, newer.Spec.Devices[1:]
			f.Slices = append([]*resourceapi.ResourceSlice{newer}, f.Slices...)
		}, "no ResourceSlice publishes a.example.com/net/nic"},
		"held twice":          {func(f *checkFixture) { f.hold("cards", "half0", nil, 0) }, "half0 of pool a.example.com/cards is also held by claim ns/cards"},
		"whole beside share":  {func(f *checkFixture) { f.hold("net", "nic", nil, 0) }, "nic of pool a.example.com/net is also held by"},
		"same share ID":       {func(f *checkFixture) { f.hold("net", "nic", ptr(shareA), 1) }, "is also the ID of a share of"},
		"shares too large":    {func(f *checkFixture) { f.hold("net", "nic", ptr(shareB), 3) }, "the shares of nic exceed its 4 of bw"},
		"shares just enough":  {func(f *checkFixture) { f.hold("net", "nic", ptr(shareB), 2) }, ""},
		"counter exceeded":    {func(f *checkFixture) { f.hold("cards", "half2", nil, 0) }, "spec.sharedCounters[card].counters[m]: devices in use draw 6, more than the 4 published"},
		"counter gone":        {func(f *checkFixture) { f.Slices[1].Spec.SharedCounters = nil }, "which no ResourceSlice publishes"},
		"groups disagree":     {func(f *checkFixture) { f.device(0, 0).ConsumesCounters[0].CompatibilityGroups = []string{"a"} }, "share no compatibility group"},
		"admin access is off": {func(f *checkFixture) { f.cards()[0].AdminAccess = ptr(true); f.hold("cards", "half0", nil, 0) }, ""},
		"not allocated":       {func(f *checkFixture) { f.Held = append(f.Held, &resourceapi.ResourceClaim{}) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newCheckFixture()
			tc.breaks(f)
			for i, claim := range f.Claims {
				claim.Status.Allocation = &f.results[i]
			}
			expectViolation(t, CheckCluster(f.Slices, append(f.Held, f.Claims...)), tc.want)
		})
	}
}
