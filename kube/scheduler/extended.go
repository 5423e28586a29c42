// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"math"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
)

// Extended resources can be served by devices (KEP-5004): where no device plugin
// offers what a pod asks for, a special claim gets devices of the class that the
// resource is mapped to. What the claim has to ask for depends on the node. So an
// attempt is divided into ways, one for each set of resources that devices serve:
// an attempt of its own with the pod's claims and the special one, solved together.

// extended is what an attempt has to do with extended resources.
type extended struct {
	pod *v1.Pod
	// base is the attempt without a special claim.
	base *attempt
	// demands are the resources that classes serve; dangling are those that the
	// scheduler takes for served although there is no class any more.
	demands  []claim.Demand
	dangling []v1.ResourceName
	// kept is the claim that an earlier attempt made, to be used where it fits;
	// left are others, to be removed. Nobody but PostFilter and PreBind changes
	// them.
	kept *resourceapi.ResourceClaim
	left []*resourceapi.ResourceClaim
	// broken says why the devices of kept will not become ready.
	broken *bindingError
	// tainted says why the pod may not use the devices of kept.
	tainted *joinError
	// named is the special claim in the pod's status, which cannot be taken back;
	// settled are the demands that it serves, whatever device plugins offer by now.
	named   string
	settled []claim.Demand

	mutex sync.Mutex
	// unfit is set where some node cannot use kept.
	unfit bool
	// ways by the resources that devices serve, and the one for each node.
	ways  map[string]*way
	nodes map[string]*attempt
}

// way is an attempt for nodes where devices serve certain resources, or why there is
// none.
type way struct {
	once    sync.Once
	attempt *attempt
	status  *fwk.Status
}

// extendedOf returns nil where the pod has nothing to do with devices that serve
// extended resources.
func (s *specialClaims) extendedOf(pod *v1.Pod) (*extended, error) {
	if !s.gates.extended {
		return nil, nil
	}
	names := claim.ExtendedResources(pod)
	if len(names) == 0 {
		return nil, nil
	}
	demands, err := s.demandsOf(pod)
	if err != nil {
		return nil, err
	}
	dangling := s.alignResolver(names, demands)
	claims, err := s.specials.of(pod, s.manager.ResourceClaims())
	if err != nil {
		return nil, err
	}
	named := s.specials.nameIn(pod)
	if len(demands) == 0 && len(dangling) == 0 && len(claims) == 0 && named == "" {
		return nil, nil
	}
	ext := &extended{pod: pod, demands: demands, dangling: dangling, named: named, ways: map[string]*way{}, nodes: map[string]*attempt{}}
	ext.kept, ext.left = chooseSpecial(pod, claims)
	if ext.kept == nil {
		return ext, nil
	}
	asked, current := askedBy(ext.kept, demands)
	switch {
	case !current:
		ext.left, ext.kept = append(ext.left, ext.kept), nil
	case ext.kept.Status.Allocation != nil:
		ext.broken = s.bindings.brokenBinding(ext.kept, s.clock.Now())
		if ext.kept.Name == ext.named {
			ext.settled = asked
		}
	}
	return ext, nil
}

// askedBy returns the demands that a claim was made for, ok is false if it was made
// for something else: the pod's resources are served by other classes now.
func askedBy(c *resourceapi.ResourceClaim, demands []claim.Demand) (asked []claim.Demand, ok bool) {
	rest := c.Spec.Devices.Requests
	for _, d := range demands {
		n := len(d.Requests)
		if n <= len(rest) && apiequality.Semantic.DeepEqual(d.Requests, rest[:n]) {
			asked, rest = append(asked, d), rest[n:]
		}
	}
	return asked, len(rest) == 0 && len(asked) > 0
}

// demandsOf lists what a pod wants of the resources that classes serve now.
func (s *specialClaims) demandsOf(pod *v1.Pod) ([]claim.Demand, error) {
	classes, err := s.manager.DeviceClasses().List()
	if err != nil {
		return nil, fmt.Errorf("list device classes: %w", err)
	}
	return claim.Demands(pod, slices.Values(classes)), nil
}

// servedOn returns the demands that devices have to serve on a node: of a resource
// that a device plugin offers it gives.
func (ext *extended) servedOn(node fwk.NodeInfo) []claim.Demand {
	if ext.settled != nil {
		return ext.settled
	}
	return claim.ByDevices(ext.demands, func(name v1.ResourceName) bool { return offered(node, name) > 0 })
}

// offered is how much of a resource a device plugin offers on the node.
func offered(node fwk.NodeInfo, name v1.ResourceName) int64 {
	if node == nil {
		return 0
	}
	return node.GetAllocatable().GetScalarResources()[name]
}

// wayTo returns the state of the attempt as it is for a node.
func (pl *Plugin) wayTo(logger klog.Logger, s *cycleState, node fwk.NodeInfo) (*cycleState, *fwk.Status) {
	ext := s.extended
	if ext == nil {
		return s, nil
	}
	for _, name := range ext.dangling {
		if offered(node, name) == 0 {
			return nil, hopeless(logger, fmt.Sprintf("Insufficient %s: no device class serves it any more", name))
		}
	}
	w := pl.way(logger, ext, ext.servedOn(node))
	if w.attempt == nil {
		return nil, w.status
	}
	ext.mutex.Lock()
	ext.nodes[node.Node().Name] = w.attempt
	ext.mutex.Unlock()
	return &cycleState{attempt: w.attempt, extended: ext, simulation: s.simulation}, nil
}

// way finds or makes the one for some resources. Nodes are looked at at once, each
// way is made by the first that needs it.
func (pl *Plugin) way(logger klog.Logger, ext *extended, served []claim.Demand) *way {
	key := claim.ResourcesOf(served)
	ext.mutex.Lock()
	w := ext.ways[key]
	if w == nil {
		w = &way{}
		ext.ways[key] = w
	}
	ext.mutex.Unlock()
	w.once.Do(func() { w.attempt, w.status = pl.newWay(logger, ext, served) })
	return w
}

func (pl *Plugin) newWay(logger klog.Logger, ext *extended, served []claim.Demand) (*attempt, *fwk.Status) {
	if len(served) == 0 {
		if ext.named != "" {
			return nil, hopeless(logger, explain.SpecialNeedless(ext.named))
		}
		return ext.base, nil
	}
	pc := newSpecial(ext.pod, served)
	if ext.kept != nil {
		same := apiequality.Semantic.DeepEqual(ext.kept.Spec.Devices, pc.claim.Spec.Devices)
		allocated := ext.kept.Status.Allocation != nil
		switch {
		case same:
			pc.claim, pc.special.inMemory = ext.kept, false
		case allocated:
			ext.mutex.Lock()
			ext.unfit = true
			ext.mutex.Unlock()
			return nil, hopeless(logger, fmt.Sprintf("resourceclaim not available on the node: claim %s was made for other nodes or other device classes", nameOf(ext.kept)))
		}
	}
	if pc.special.inMemory {
		if denied := pl.ledger.denials.reason(ext.pod.UID, ext.base.question); denied != nil {
			return nil, hopeless(logger, denied.Error())
		}
	}
	a, err := pl.withSpecial(ext, pc)
	if err != nil {
		return nil, refuseInput(logger, err)
	}
	return a, nil
}

// withSpecial returns the base attempt with one more claim.
func (pl *Plugin) withSpecial(ext *extended, pc *podClaim) (*attempt, error) {
	base := ext.base
	a := &attempt{
		claims: append(slices.Clip(base.claims), pc), special: pc, common: base.common, found: map[string]finding{},
		asks: base.asks, stale: base.stale, allocated: slices.Clip(base.allocated),
		wanted: slices.Clip(base.wanted), snapshot: base.snapshot, avoid: slices.Clip(base.avoid),
	}
	if allocation := pc.claim.Status.Allocation; allocation == nil {
		a.wanted = append(a.wanted, pc)
		for _, id := range pl.ledger.failures.of(pc.key()) {
			a.avoid = append(a.avoid, inventory.Hold{Device: id})
		}
	} else {
		if allocation.NodeSelector != nil {
			nodes, err := nodeaffinity.NewNodeSelector(allocation.NodeSelector)
			if err != nil {
				return nil, fmt.Errorf("claim %s: node selector of its allocation: %w", nameOf(pc.claim), err)
			}
			pc.nodes = nodes
		}
		if pl.gates.nodeResources {
			a.allocated = append(a.allocated, pc.allocated(allocation, a.snapshot.DevicesOf(allocation))...)
			a.asks = claim.WithStatuses(ext.pod, claim.Statuses(ext.pod, a.allocated))
		}
	}
	return a, pl.compileAttempt(a)
}

// compileAttempt prepares the search for what is wanted.
func (pl *Plugin) compileAttempt(a *attempt) error {
	if len(a.wanted) == 0 {
		return nil
	}
	problem, err := pl.compiler.compile(a.wanted)
	if err != nil {
		return err
	}
	a.problem = problem
	a.deviceless = sync.OnceValues(func() (alloc.Outcome, error) { return problem.Allocate(&inventory.View{Node: &v1.Node{}}) })
	return nil
}

// wayOn returns the attempt as it was for a node in Filter.
func (s *cycleState) wayOn(node string) *attempt {
	if s.extended == nil {
		return s.attempt
	}
	s.extended.mutex.Lock()
	defer s.extended.mutex.Unlock()
	if way := s.extended.nodes[node]; way != nil {
		return way
	}
	return s.attempt
}

// unused lists the special claims that an attempt does not use.
func (s *cycleState) unused() []*resourceapi.ResourceClaim {
	if s.extended == nil {
		return nil
	}
	left := slices.Clip(s.extended.left)
	if kept := s.extended.kept; kept != nil && (s.special == nil || s.special.claim.UID != kept.UID) {
		left = append(left, kept)
	}
	return left
}

// blocks reports whether the special claim that was kept cannot be used where the
// pod could go.
func (ext *extended) blocks() bool {
	ext.mutex.Lock()
	defer ext.mutex.Unlock()
	if ext.kept == nil || ext.unfit || ext.broken != nil || ext.tainted != nil {
		return ext.kept != nil
	}
	for _, w := range ext.ways {
		if w.attempt != nil && w.attempt.special != nil && w.attempt.special.unavailable {
			return true
		}
	}
	return false
}

// waitingSpecial returns the special claim of a pod that waits for devices, where
// they serve some of its resources: one with an allocation, or one to be made.
func (s *specialClaims) waitingSpecial(pod *v1.Pod, byDevices func(v1.ResourceName) bool) *podClaim {
	if !s.gates.extended {
		return nil
	}
	names := slices.DeleteFunc(claim.ExtendedResources(pod), func(name v1.ResourceName) bool { return !byDevices(name) })
	if len(names) == 0 {
		return nil
	}
	claims, err := s.specials.of(pod, s.manager.ResourceClaims())
	if kept, _ := chooseSpecial(pod, claims); err == nil && kept != nil && kept.Status.Allocation != nil {
		return &podClaim{claim: kept, special: &special{placeholder: placeholderUID(pod.UID)}}
	}
	demands, err := s.demandsOf(pod)
	if err != nil {
		return nil
	}
	if demands = claim.ByDevices(demands, func(name v1.ResourceName) bool { return !byDevices(name) }); len(demands) > 0 {
		return newSpecial(pod, demands)
	}
	return nil
}

// usesDevices reports whether the pod has claims, or may have a special one.
func (l *lookup) usesDevices(pod *v1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || l.gates.extended && len(claim.ExtendedResources(pod)) > 0
}

// byDevices tells which extended resources devices serve on this way.
func (a *attempt) byDevices(name v1.ResourceName) bool {
	return a.special != nil && slices.ContainsFunc(a.special.special.demands, func(d claim.Demand) bool { return d.Resource == name })
}

// pluginFits is for how many pods like this one the device plugins of a node
// suffice.
func (ext *extended) pluginFits(node fwk.NodeInfo) int {
	fits := math.MaxInt
	for _, d := range ext.demands {
		if most := offered(node, d.Resource); most > 0 {
			left := most - node.GetRequested().GetScalarResources()[d.Resource]
			fits = min(fits, int(max(left, 0)/d.Amount))
		}
	}
	return fits
}

// afterAllocatableChange wakes a pod when a device plugin has begun or ceased to
// offer something that it asks for, or offers another amount.
func (h *hints) afterAllocatableChange(_ klog.Logger, pod *v1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := schedutil.As[*v1.Node](oldObj, newObj)
	if err != nil || before == nil {
		return fwk.Queue, err
	}
	return hint(slices.ContainsFunc(claim.ExtendedResources(pod), func(name v1.ResourceName) bool {
		return !before.Status.Allocatable.Name(name, "").Equal(*after.Status.Allocatable.Name(name, ""))
	}))
}

// called is what a request of the special claim is for; whoever wrote the pod does not
// know its name.
func (a *attempt) called(ref alloc.RequestRef) string {
	if a.special == nil || ref.Claim != nameOf(a.special.claim) {
		return ""
	}
	return claim.PurposeIn(a.special.special.mappings, ref.Request).String()
}

func always(v1.ResourceName) bool { return true }

// byDevicesOf tells which extended resources devices serve on a node.
func byDevicesOf(node fwk.NodeInfo) func(v1.ResourceName) bool {
	return func(name v1.ResourceName) bool { return offered(node, name) == 0 }
}

func (ext *extended) setBase(a *attempt) {
	if ext != nil {
		ext.base = a
	}
}
