// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/component-base/configz"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/yaml"

	"kerf.dev/kerf/deploy"
	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/sandbox/part"
)

// schedulerConfigzName is the name under which kube-scheduler registers its
// configuration in the process. It has to be free before it can start again.
const schedulerConfigzName = "componentconfig"

// schedulerUser is who the scheduler is, with the rights that RBAC gives to that user.
const schedulerUser = "system:kube-scheduler"

// schedulerPart is kube-scheduler with the plugins of the sandbox's options.
type schedulerPart struct {
	part.Linked
	// config and scheduler are those of the latest run. Read them while it lasts.
	config    *schedulerconfig.CompletedConfig
	scheduler *scheduler.Scheduler
}

func newScheduler(s *Sandbox) *schedulerPart {
	p := &schedulerPart{}
	p.Linked = part.Linked{
		Name: "kube-scheduler", Address: s.address, Failed: s.fail,
		Gone: func() { s.holds.abandon("scheduler") },
		Setup: func(ctx context.Context, address string) (func() error, error) {
			kubeconfig, err := s.kubeconfig("scheduler", address, schedulerUser)
			if err != nil {
				return nil, err
			}
			config := filepath.Join(s.dir, "scheduler.yaml")
			if err := writeSchedulerConfig(config, s.options.Scheduler.Config, kubeconfig); err != nil {
				return nil, fmt.Errorf("configuration: %w", err)
			}
			return p.setUp(ctx, config, s.options.Scheduler.Plugins)
		},
	}
	return p
}

// setUp prepares a run with a configuration file.
func (p *schedulerPart) setUp(ctx context.Context, configFile string, plugins frameworkruntime.Registry) (run func() error, err error) {
	o := options.NewOptions()
	o.ConfigFile = configFile
	o.SecureServing.BindPort = 0

	var registered []app.Option
	for name, factory := range plugins {
		registered = append(registered, app.WithPlugin(name, factory))
	}
	ctx, cancel := context.WithCancel(ctx)
	config, sched, err := app.Setup(ctx, o, registered...)
	if err != nil {
		cancel()
		return nil, err
	}
	p.config, p.scheduler = config, sched
	return func() error {
		defer configz.Delete(schedulerConfigzName)
		err := app.Run(ctx, config, sched)
		if ctx.Err() != nil {
			err = nil // Run reports being told to stop as an error.
		}
		cancel()
		config.InformerFactory.Shutdown()
		config.DynInformerFactory.Shutdown()
		return err
	}, nil
}

// permitScheduler gives the scheduler the rights of the one that is deployed: those of
// its user do not cover the guards of a fabric, nor quotas.
func permitScheduler(ctx context.Context, s *Sandbox) error {
	set, err := manifest.Parse("deploy/scheduler", bytes.NewReader(deploy.SchedulerRBAC))
	if err != nil {
		return err
	}
	if err := s.Apply(ctx, set); err != nil {
		return err
	}
	_, err = s.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "kerf-sandbox:scheduler"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kerf-scheduler"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: schedulerUser}},
	}, metav1.CreateOptions{})
	return err
}

// writeSchedulerConfig writes a configuration with the sandbox's connection.
func writeSchedulerConfig(path string, text []byte, kubeconfig string) error {
	var config map[string]any
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return err
	}
	for _, field := range []struct {
		value any
		path  []string
	}{
		{kubeconfig, []string{"clientConnection", "kubeconfig"}},
		{float64(-1), []string{"clientConnection", "qps"}},
		{false, []string{"leaderElection", "leaderElect"}},
	} {
		if err := unstructured.SetNestedField(config, field.value, field.path...); err != nil {
			return err
		}
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
