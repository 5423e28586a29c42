// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"errors"
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

// schedulerRun is one run of the scheduler, from start to stop or kill.
type schedulerRun struct {
	*part.Component
	config    *schedulerconfig.CompletedConfig
	scheduler *scheduler.Scheduler
	link      *part.Link
}

// StartScheduler starts the scheduler, with no memory of an earlier run. It
// fails if the scheduler is running.
func (s *Sandbox) StartScheduler(ctx context.Context) error {
	s.schedulerMu.Lock()
	defer s.schedulerMu.Unlock()
	if s.scheduler != nil {
		return errors.New("start scheduler: it is running")
	}
	return s.startScheduler(ctx)
}

// MendScheduler starts the scheduler if it is not running, and reconnects it if it is
// cut off. It does nothing to one that works.
func (s *Sandbox) MendScheduler(ctx context.Context) error {
	s.schedulerMu.Lock()
	defer s.schedulerMu.Unlock()
	if s.scheduler == nil {
		return s.startScheduler(ctx)
	}
	s.scheduler.link.Mend()
	return nil
}

// permitScheduler gives the scheduler the rights of the one that is deployed: those of
// its user do not cover the guards of a fabric, nor quotas.
func (s *Sandbox) permitScheduler(ctx context.Context) error {
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

// startScheduler starts it. The caller holds the lock.
func (s *Sandbox) startScheduler(ctx context.Context) error {
	cable, err := part.NewLink(s.address)
	if err != nil {
		return fmt.Errorf("start scheduler: %w", err)
	}
	run, err := s.newSchedulerRun(ctx, cable)
	if err != nil {
		return fmt.Errorf("start scheduler: %w", errors.Join(err, cable.Close()))
	}
	s.scheduler = run
	return nil
}

// StopScheduler ends the scheduler as SIGTERM would and waits for its end. It
// does nothing if the scheduler is not running.
func (s *Sandbox) StopScheduler() error {
	s.schedulerMu.Lock()
	defer s.schedulerMu.Unlock()
	if s.scheduler == nil {
		return nil
	}
	err := s.scheduler.end()
	s.scheduler = nil
	return err
}

// KillScheduler ends the scheduler as SIGKILL would: from the moment of the call
// nothing that it does reaches the API server any more, even what it would do to
// clean up. It does nothing if the scheduler is not running.
func (s *Sandbox) KillScheduler() error {
	s.schedulerMu.Lock()
	defer s.schedulerMu.Unlock()
	if s.scheduler == nil {
		return nil
	}
	s.scheduler.Doom()
	err := s.scheduler.link.Close()
	s.holds.abandon("scheduler")
	err = errors.Join(err, s.scheduler.end())
	s.scheduler = nil
	return err
}

// DisconnectScheduler cuts the connection between the scheduler and the API server
// until ReconnectScheduler.
func (s *Sandbox) DisconnectScheduler() error {
	s.schedulerMu.Lock()
	defer s.schedulerMu.Unlock()
	if s.scheduler == nil {
		return errors.New("disconnect scheduler: it is not running")
	}
	defer s.holds.abandon("scheduler")
	return s.scheduler.link.Sever()
}

// ReconnectScheduler ends what DisconnectScheduler has begun.
func (s *Sandbox) ReconnectScheduler() {
	s.schedulerMu.Lock()
	defer s.schedulerMu.Unlock()
	if s.scheduler != nil {
		s.scheduler.link.Mend()
	}
}

func (s *Sandbox) newSchedulerRun(ctx context.Context, cable *part.Link) (*schedulerRun, error) {
	configFile, err := s.writeSchedulerConfig("https://" + cable.Address())
	if err != nil {
		return nil, err
	}
	o := options.NewOptions()
	o.ConfigFile = configFile
	o.SecureServing.BindPort = 0

	var registered []app.Option
	for name, factory := range s.options.Scheduler.Plugins {
		registered = append(registered, app.WithPlugin(name, factory))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	config, sched, err := app.Setup(ctx, o, registered...)
	if err != nil {
		cancel()
		return nil, err
	}
	run := &schedulerRun{config: config, scheduler: sched, link: cable}
	run.Component = part.Run("kube-scheduler", cancel, s.fail, func() error {
		defer configz.Delete(schedulerConfigzName)
		err := app.Run(ctx, config, sched)
		if ctx.Err() != nil {
			return nil // Run reports being told to stop as an error.
		}
		return err
	})
	return run, nil
}

// end stops the scheduler and everything that it has left running.
func (r *schedulerRun) end() error {
	err := r.Stop()
	r.config.InformerFactory.Shutdown()
	r.config.DynInformerFactory.Shutdown()
	return errors.Join(err, r.link.Close())
}

// writeSchedulerConfig writes the configuration with the sandbox's connection.
func (s *Sandbox) writeSchedulerConfig(server string) (string, error) {
	kubeconfig := filepath.Join(s.dir, "scheduler.kubeconfig")
	if err := writeKubeconfig(kubeconfig, server, s.ca.pem, s.schedulerCert); err != nil {
		return "", err
	}
	var config map[string]any
	if err := yaml.UnmarshalStrict(s.options.Scheduler.Config, &config); err != nil {
		return "", fmt.Errorf("scheduler configuration: %w", err)
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
			return "", fmt.Errorf("scheduler configuration: %w", err)
		}
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("scheduler configuration: %w", err)
	}
	path := filepath.Join(s.dir, "scheduler.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("scheduler configuration: %w", err)
	}
	return path, nil
}
