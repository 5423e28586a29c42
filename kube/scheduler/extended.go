// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/claim"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/inventory"
	"kerf.dev/kerf/kube/scheduler/podclaim"
	"kerf.dev/kerf/kube/scheduler/special"
)

// Extended resources can be served by devices (KEP-5004): where no device plugin
// offers what a pod asks for, a special claim gets devices of the class that the
// resource is mapped to. What the claim has to ask for depends on the node. So an
// attempt is divided into ways, one for each set of resources that devices serve:
// an attempt of its own with the pod's claims and the special one, solved together.

// extended are the ways of an attempt.
type extended struct {
	*special.Case
	// base is the attempt without a special claim.
	base *attempt

	mutex sync.Mutex
	// unfit is set where some node cannot use the claim that was kept.
	unfit bool
	// ways by the resources that devices serve, and the one for each node.
	ways  map[string]*way
	nodes map[string]*attempt
}

// newExtended returns nil where the pod has nothing to do with extended resources.
func newExtended(of *special.Case, base *attempt) *extended {
	if of == nil {
		return nil
	}
	return &extended{Case: of, base: base, ways: map[string]*way{}, nodes: map[string]*attempt{}}
}

// way is an attempt for nodes where devices serve certain resources, or why there is
// none.
type way struct {
	once    sync.Once
	attempt *attempt
	status  *fwk.Status
}

// wayTo returns the state of the attempt as it is for a node.
func (pl *Plugin) wayTo(logger klog.Logger, s *cycleState, node fwk.NodeInfo) (*cycleState, *fwk.Status) {
	ext := s.extended
	if ext == nil {
		return s, nil
	}
	for _, name := range ext.Dangling {
		if special.Offered(node, name) == 0 {
			return nil, hopeless(logger, fmt.Sprintf("Insufficient %s: no device class serves it any more", name))
		}
	}
	w := pl.way(logger, ext, ext.ServedOn(node))
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
		if ext.Named != "" {
			return nil, hopeless(logger, explain.SpecialNeedless(ext.Named))
		}
		return ext.base, nil
	}
	pc := podclaim.NewSpecial(ext.Pod, served)
	if ext.Kept != nil {
		same := apiequality.Semantic.DeepEqual(ext.Kept.Spec.Devices, pc.Claim.Spec.Devices)
		allocated := ext.Kept.Status.Allocation != nil
		switch {
		case same:
			pc.Claim, pc.Special.InMemory = ext.Kept, false
		case allocated:
			ext.mutex.Lock()
			ext.unfit = true
			ext.mutex.Unlock()
			return nil, hopeless(logger, fmt.Sprintf("resourceclaim not available on the node: claim %s was made for other nodes or other device classes", podclaim.NameOf(ext.Kept)))
		}
	}
	if pc.Special.InMemory {
		if denied := pl.ledger.Denials.Reason(ext.Pod.UID, ext.base.question); denied != nil {
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
func (pl *Plugin) withSpecial(ext *extended, pc *podclaim.Claim) (*attempt, error) {
	base := ext.base
	a := &attempt{
		claims: append(slices.Clip(base.claims), pc), special: pc, common: base.common, found: map[string]finding{},
		asks: base.asks, stale: base.stale, allocated: slices.Clip(base.allocated),
		wanted: slices.Clip(base.wanted), snapshot: base.snapshot, avoid: slices.Clip(base.avoid),
	}
	if allocation := pc.Claim.Status.Allocation; allocation == nil {
		a.wanted = append(a.wanted, pc)
		for _, id := range pl.ledger.Failures.Of(pc.Key()) {
			a.avoid = append(a.avoid, inventory.Hold{Device: id})
		}
	} else {
		if allocation.NodeSelector != nil {
			nodes, err := nodeaffinity.NewNodeSelector(allocation.NodeSelector)
			if err != nil {
				return nil, fmt.Errorf("claim %s: node selector of its allocation: %w", podclaim.NameOf(pc.Claim), err)
			}
			pc.Nodes = nodes
		}
		if pl.gates.nodeResources {
			a.allocated = append(a.allocated, pc.Allocated(allocation, a.snapshot.DevicesOf(allocation))...)
			a.asks = claim.WithStatuses(ext.Pod, claim.Statuses(ext.Pod, a.allocated))
		}
	}
	return a, pl.compileAttempt(a)
}

// compileAttempt prepares the search for what is wanted.
func (pl *Plugin) compileAttempt(a *attempt) error {
	if len(a.wanted) == 0 {
		return nil
	}
	problem, err := pl.compiler.Compile(a.wanted)
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
	left := slices.Clip(s.extended.Left)
	if kept := s.extended.Kept; kept != nil && (s.special == nil || s.special.Claim.UID != kept.UID) {
		left = append(left, kept)
	}
	return left
}

// blocks reports whether the special claim that was kept cannot be used where the
// pod could go.
func (ext *extended) blocks() bool {
	ext.mutex.Lock()
	defer ext.mutex.Unlock()
	if ext.Kept == nil || ext.unfit || ext.Broken != nil || ext.Tainted != nil {
		return ext.Kept != nil
	}
	for _, w := range ext.ways {
		if w.attempt != nil && w.attempt.special != nil && w.attempt.special.Unavailable {
			return true
		}
	}
	return false
}

// byDevices tells which extended resources devices serve on this way.
func (a *attempt) byDevices(name v1.ResourceName) bool {
	return a.special != nil && slices.ContainsFunc(a.special.Special.Demands, func(d claim.Demand) bool { return d.Resource == name })
}

// called is what a request of the special claim is for; whoever wrote the pod does not
// know its name.
func (a *attempt) called(ref alloc.RequestRef) string {
	if a.special == nil || ref.Claim != podclaim.NameOf(a.special.Claim) {
		return ""
	}
	return claim.PurposeIn(a.special.Special.Mappings, ref.Request).String()
}
