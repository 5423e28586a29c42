// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"context"
	"fmt"
	"time"

	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"

	"kerf.dev/kerf/sandbox/part"
)

// controllers are those of kube-controller-manager that claims and workloads
// need. The others serve networks, volumes, certificates and node hardware,
// which simulated nodes do not have.
var controllers = []string{
	names.ResourceClaimController,
	names.ResourcePoolStatusRequestController,
	names.DeviceTaintEvictionController,
	names.TaintEvictionController,
	names.GarbageCollectorController,
	names.NamespaceController,
	names.ServiceAccountController,
	names.ClusterRoleAggregationController,
	names.ResourceQuotaController,
	names.PodGarbageCollectorController,
	names.PodGroupProtectionController,
	names.DeploymentController,
	names.ReplicaSetController,
	names.StatefulSetController,
	names.DaemonSetController,
	names.JobController,
	names.CronJobController,
	names.DisruptionController,
	names.TTLAfterFinishedController,
}

// controllersUser is who the controllers are.
const controllersUser = "system:kube-controller-manager"

// controllerShutdownLimit bounds how long a stopping controller may take.
const controllerShutdownLimit = 10 * time.Second

// newControllers returns kube-controller-manager with the selected
// controllers. It listens on no port and holds no leader election.
func newControllers(s *Sandbox) *part.Lasting {
	return &part.Lasting{Name: "kube-controller-manager", Failed: s.fail, Setup: func(ctx context.Context) (func() error, error) {
		kubeconfig, err := s.kubeconfig("controllers", s.address, controllersUser, "system:masters")
		if err != nil {
			return nil, err
		}
		return setUpControllers(ctx, kubeconfig)
	}}
}

func setUpControllers(ctx context.Context, kubeconfig string) (run func() error, err error) {
	o, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, fmt.Errorf("default options: %w", err)
	}
	o.Generic.Controllers = controllers
	o.Generic.LeaderElection.LeaderElect = false
	o.Generic.ControllerStartInterval.Duration = 0
	o.Generic.ClientConnection.Kubeconfig = kubeconfig
	o.Generic.ClientConnection.QPS = -1
	o.SecureServing.BindPort = 0
	o.ControllerShutdownTimeout = controllerShutdownLimit

	config, err := o.Config(ctx, app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases())
	if err != nil {
		return nil, err
	}
	return func() error {
		defer configz.Delete(app.ConfigzName)
		return app.Run(ctx, config.Complete())
	}, nil
}
