// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/clock"

	"kerf.dev/kerf/alloc"
	kerfv1 "kerf.dev/kerf/api/scheduler/v1"
	"kerf.dev/kerf/kube/informer"
	"kerf.dev/kerf/kube/scheduler/background"
	"kerf.dev/kerf/kube/scheduler/handover"
	"kerf.dev/kerf/kube/scheduler/ledger"
	"kerf.dev/kerf/kube/scheduler/podclaim"
	"kerf.dev/kerf/kube/scheduler/special"
	"kerf.dev/kerf/selector"
)

// Name is the name of the plugin in registries and configurations.
const Name = "Kerf"

// Plugin allocates the devices of ResourceClaims. Its methods are the extension points, and
// what one attempt to schedule a pod consists of; all else is done by its parts.
type Plugin struct {
	logger  klog.Logger
	gates   gates
	handle  fwk.Handle
	manager fwk.SharedDRAManager
	feed    *informer.Feed

	ledger *ledger.Ledger
	chores *background.Chores
	// rules is nil where there are no DeviceTaintRules; strays and quotas where devices serve
	// no extended resources.
	rules  *handover.Rules
	strays *special.Strays
	quotas *special.QuotaWatch

	lookup        *lookup
	compiler      *podclaim.Compiler
	hints         *hints
	refusals      *refusals
	keepers       *keepers
	room          *nodeRoom
	bindings      *podclaim.Bindings
	taints        *handover.Taints
	writer        *podclaim.Writer
	status        *statusWriter
	handover      *handover.Waiter
	specialClaims *special.Claims
}

var (
	_ fwk.PreEnqueuePlugin         = &Plugin{}
	_ fwk.PreFilterPlugin          = &Plugin{}
	_ fwk.PreFilterExtensions      = &Plugin{}
	_ fwk.FilterPlugin             = &Plugin{}
	_ fwk.PostFilterPlugin         = &Plugin{}
	_ fwk.PodGroupPostFilterPlugin = &Plugin{}
	_ fwk.PreScorePlugin           = &Plugin{}
	_ fwk.ScorePlugin              = &Plugin{}
	_ fwk.ReservePlugin            = &Plugin{}
	_ fwk.PreBindPlugin            = &Plugin{}
	_ fwk.EnqueueExtensions        = &Plugin{}
	_ fwk.SignPlugin               = &Plugin{}
	_ io.Closer                    = &Plugin{}
)

// New returns the plugin; it is a PluginFactory of the scheduling framework.
// Arguments are those of [kerfv1.Decode].
func New(ctx context.Context, arguments runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	return newPlugin(ctx, arguments, handle, clock.RealClock{})
}

func newPlugin(ctx context.Context, arguments runtime.Object, handle fwk.Handle, clock clock.WithTickerAndDelayedExecution) (*Plugin, error) {
	args, err := kerfv1.Decode(arguments)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation) {
		return nil, fmt.Errorf("plugin %s: the feature gate %s is off; switch it on or take the plugin out of the configuration", Name, features.DynamicResourceAllocation)
	}
	registerMetrics()
	logger, gates := klog.FromContext(ctx), currentGates()
	books, err := ledger.New(logger, handle, clock, gates.extended && gates.nodeResources)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	pl := &Plugin{logger: logger, gates: gates, handle: handle, manager: handle.SharedDRAManager(), ledger: books, chores: background.NewChores(logger, handle)}
	pl.assemble(args, clock)
	if err := pl.start(); err != nil {
		return nil, errors.Join(fmt.Errorf("plugin %s: %w", Name, err), pl.Close())
	}
	return pl, nil
}

// assemble puts the parts of the plugin together.
func (pl *Plugin) assemble(args *kerfv1.KerfArgs, clock clock.Clock) {
	handle, gates, manager, client, l := pl.handle, pl.gates, pl.manager, pl.handle.ClientSet(), pl.ledger
	factory := handle.SharedInformerFactory()
	matcher := selector.New()
	if gates.taintRules {
		pl.rules = handover.NewRules(handle, l.Held)
		manager = pl.rules.Mend(manager)
	}
	pl.feed = informer.NewFeed(manager, l.Conflicts, l.Exchanges.Promised, pl.reportConflict)
	pl.lookup = &lookup{gates: gates, handle: handle, manager: pl.manager}
	pl.compiler = &podclaim.Compiler{Manager: pl.manager, Matcher: matcher, Options: alloc.Options{Strategy: alloc.Strategy(args.Scoring), StepBudget: int(*args.StepBudget)}}
	pl.writer = &podclaim.Writer{Client: client, Manager: pl.manager, Clock: clock}
	pl.bindings = &podclaim.Bindings{Clock: clock, Timeout: args.BindingTimeout.Duration}
	pl.taints = &handover.Taints{Plugin: Name, Handle: handle, Feed: pl.feed, Held: l.Held, Rules: pl.rules}
	pl.specialClaims = &special.Claims{
		Enabled: gates.extended, Client: client, Manager: pl.manager, Clock: clock, Users: l.Users, Writer: pl.writer, Bindings: pl.bindings,
		Watch: l.Watch, Failures: l.Failures, Specials: l.Specials, UnderWay: l.UnderWay, Chores: pl.chores, Denials: l.Denials,
	}
	pl.hints = &hints{gates: gates, manager: pl.manager, feed: pl.feed, matcher: matcher, users: l.Users, dear: newDearExpressions(clock), lookup: pl.lookup, specialClaims: pl.specialClaims}
	pl.refusals = &refusals{handle: handle, hints: pl.hints, compiler: pl.compiler}
	pl.keepers = &keepers{handle: handle, manager: pl.manager, users: l.Users, underWay: l.UnderWay, exchanges: l.Exchanges}
	pl.room = &nodeRoom{gates: gates, handle: handle, manager: pl.manager, feed: pl.feed, lookup: pl.lookup, users: l.Users, inFlight: l.InFlight, untold: l.Untold}
	pl.status = &statusWriter{gates: gates, handle: handle, client: client, users: l.Users, writer: pl.writer, specials: l.Specials, specialClaims: pl.specialClaims}
	pl.handover = &handover.Waiter{
		Handle: handle, Client: client, Manager: pl.manager, Clock: clock, Nodes: factory.Core().V1().Nodes().Lister(), Feed: pl.feed,
		WorkloadClaims: gates.workloadClaims, Compiler: pl.compiler, Writer: pl.writer, Bindings: pl.bindings, Taints: pl.taints,
		Users: l.Users, Watch: l.Watch, Failures: l.Failures, Exchanges: l.Exchanges,
	}
}

// start begins to follow what happens in the cluster.
func (pl *Plugin) start() error {
	if pl.rules != nil {
		if err := pl.rules.Start(pl.logger); err != nil {
			return err
		}
		survived.watch(pl, pl.afterPanic)
	}
	if !pl.gates.extended {
		return pl.ledger.Open(nil)
	}
	var err error
	if pl.quotas, err = special.WatchQuotas(pl.handle.ClientSet(), pl.specialClaims.QuotaChanged); err != nil {
		return err
	}
	pl.strays = special.StartStrays(pl.logger, pl.ledger.Specials, pl.ledger.Users.Lister, pl.handle.ProfileName(), pl.specialClaims.RemoveStray)
	return pl.ledger.Open(pl.strays)
}

// Name returns the name of the plugin.
func (pl *Plugin) Name() string { return Name }

// Close takes back the event handlers of the plugin and ends its goroutines.
func (pl *Plugin) Close() error {
	survived.ignore(pl)
	errs := []error{pl.ledger.Close()}
	pl.chores.Close()
	if pl.quotas != nil {
		pl.quotas.Close()
	}
	if pl.strays != nil {
		pl.strays.Close()
	}
	if pl.rules != nil {
		errs = append(errs, pl.rules.Close())
	}
	return errors.Join(errs...)
}

// gates are the feature gates that change what the plugin does. What other gates
// switch off never arrives here: the API server drops the fields.
type gates struct {
	// workloadClaims is DRAWorkloadResourceClaims: claims can be reserved for
	// a PodGroup.
	workloadClaims bool
	// topologyWorkloads is TopologyAwareWorkloadScheduling.
	topologyWorkloads bool
	// deferredResize is InPlacePodVerticalScalingSchedulerPreemption: bound
	// pods pass through the scheduler to make room for a resize.
	deferredResize bool
	// nodeResources is DRANodeAllocatableResources: devices take resources of
	// their node.
	nodeResources bool
	// extended is DRAExtendedResource: devices serve extended resources.
	extended bool
	// taintRules is DRADeviceTaintRules.
	taintRules bool
}

func currentGates() gates {
	on := utilfeature.DefaultFeatureGate.Enabled
	return gates{
		workloadClaims:    on(features.DRAWorkloadResourceClaims),
		topologyWorkloads: on(features.TopologyAwareWorkloadScheduling),
		deferredResize:    on(features.InPlacePodVerticalScalingSchedulerPreemption),
		nodeResources:     on(features.DRANodeAllocatableResources),
		extended:          on(features.DRAExtendedResource),
		taintRules:        on(features.DRADeviceTaintRules),
	}
}

// concerns reports whether the plugin has something to do for the pod. Bound pods
// that wait for a resize keep their devices.
func (pl *Plugin) concerns(pod *v1.Pod) bool {
	return pl.lookup.usesDevices(pod) && (!pl.gates.deferredResize || !resource.IsPodResizeDeferred(pod))
}
