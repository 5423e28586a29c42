// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/utils/clock"

	v1 "k8s.io/api/core/v1"

	"kerf.dev/kerf/alloc"
	kerfv1 "kerf.dev/kerf/api/scheduler/v1"
	"kerf.dev/kerf/kube/informer"
	"kerf.dev/kerf/selector"
)

// Name is the name of the plugin in registries and configurations.
const Name = "Kerf"

// Plugin allocates the devices of ResourceClaims.
type Plugin struct {
	args    *kerfv1.KerfArgs
	gates   gates
	handle  fwk.Handle
	client  kubernetes.Interface
	manager fwk.SharedDRAManager
	feed    *informer.Feed
	matcher alloc.Matcher
	options alloc.Options
	clock   clock.Clock

	users     *claimUsers
	watch     *claimWatch
	conflicts *informer.Conflicts
	failures  *failures
	inFlight  *inFlight
	retries   *retries
	pauses    *pauses
	// denials are the pauses of pods whose special claims the API server does not permit,
	// quotas tells when it may do so.
	denials   *pauses
	quotas    *quotaWatch
	dear      *dearExpressions
	specials  *specials
	strays    *strays
	held      *reservations
	underWay  *underWay
	chores    *chores
	exchanges *exchanges
	// untold is nil where devices take nothing of nodes, or serve no extended resources.
	untold *untold
	nodes  corelisters.NodeLister
	// rules is nil where there are no DeviceTaintRules.
	rules *ruleWatch
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
	args, err := kerfv1.Decode(arguments)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: %w", Name, err)
	}
	if !utilfeature.DefaultFeatureGate.Enabled(features.DynamicResourceAllocation) {
		return nil, fmt.Errorf("plugin %s: the feature gate %s is off; switch it on or take the plugin out of the configuration", Name, features.DynamicResourceAllocation)
	}
	registerMetrics()
	pl := &Plugin{
		args:     args,
		gates:    currentGates(),
		handle:   handle,
		client:   handle.ClientSet(),
		manager:  handle.SharedDRAManager(),
		matcher:  selector.New(),
		options:  alloc.Options{Strategy: alloc.Strategy(args.Scoring), StepBudget: int(*args.StepBudget)},
		clock:    clock.RealClock{},
		failures: newFailures(),
		inFlight: newInFlight(),
		held:     reservationsOf(handle.SharedDRAManager()),
		dear:     newDearExpressions(),
	}
	pl.underWay = pl.held.underWay
	pl.exchanges = newExchanges(pl.held)
	if err := pl.register(klog.FromContext(ctx)); err != nil {
		return nil, errors.Join(fmt.Errorf("plugin %s: %w", Name, err), pl.Close())
	}
	return pl, nil
}

// register sets up what follows the events of informers.
func (pl *Plugin) register(logger klog.Logger) error {
	factory := pl.handle.SharedInformerFactory()
	pods, claims := factory.Core().V1().Pods(), factory.Resource().V1().ResourceClaims()
	var err error
	if pl.users, err = newClaimUsers(pods, pl.handle.ProfileName()); err != nil {
		return err
	}
	if pl.watch, err = newClaimWatch(claims, pl.failures, pl.exchanges); err != nil {
		return err
	}
	pl.nodes = factory.Core().V1().Nodes().Lister()
	if pl.gates.taintRules {
		rules, slices := factory.Resource().V1().DeviceTaintRules(), factory.Resource().V1().ResourceSlices().Lister()
		if pl.rules, err = pl.watchRules(logger, rules, slices); err != nil {
			return err
		}
	}
	if pl.conflicts, err = informer.WatchConflicts(claims.Informer()); err != nil {
		return err
	}
	if pl.retries, err = newRetries(logger, pods.Informer(), pl.handle); err != nil {
		return err
	}
	pl.pauses = newPauses(logger, pods.Lister(), pl.handle)
	pl.denials = newPauses(logger, pods.Lister(), pl.handle)
	pl.chores = newChores(logger, pl.handle)
	pl.specials, err = newSpecials(claims, pods, pl.handle.ProfileName(), pl.podGone)
	if err != nil {
		return err
	}
	if pl.gates.extended {
		if pl.quotas, err = watchQuotas(pl.client, pl.quotaChanged); err != nil {
			return err
		}
		if pl.strays, err = watchStrays(logger, pl.specials, claims.Informer(), pl.handle.ProfileName(), pl.removeStray); err != nil {
			return err
		}
		if pl.gates.nodeResources {
			if pl.untold, err = watchUntold(pods.Informer()); err != nil {
				return err
			}
		}
	}
	manager := pl.manager
	if pl.rules != nil {
		manager = mendedManager{manager, pl.rules.mending}
		survived.watch(pl, func() { pl.afterPanic(logger) })
	}
	pl.feed = informer.NewFeed(manager, pl.conflicts, pl.exchanges.promised, func(c informer.Conflict) { pl.reportConflict(logger, c) })
	return nil
}

// Name returns the name of the plugin.
func (pl *Plugin) Name() string { return Name }

// Close takes back the event handlers of the plugin.
func (pl *Plugin) Close() error {
	var errs []error
	if pl.watch != nil {
		errs = append(errs, pl.watch.Close())
	}
	if pl.conflicts != nil {
		errs = append(errs, pl.conflicts.Close())
	}
	if pl.retries != nil {
		errs = append(errs, pl.retries.Close())
	}
	if pl.pauses != nil {
		pl.pauses.Close()
	}
	if pl.quotas != nil {
		pl.quotas.Close()
	}
	if pl.denials != nil {
		pl.denials.Close()
	}
	if pl.chores != nil {
		pl.chores.Close()
	}
	if pl.strays != nil {
		errs = append(errs, pl.strays.Close())
	}
	if pl.specials != nil {
		errs = append(errs, pl.specials.Close())
	}
	if pl.untold != nil {
		errs = append(errs, pl.untold.Close())
	}
	if pl.rules != nil {
		errs = append(errs, pl.rules.Close())
	}
	survived.ignore(pl)
	pl.held.leave(pl.manager)
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
	return pl.usesDevices(pod) && (!pl.gates.deferredResize || !resource.IsPodResizeDeferred(pod))
}
