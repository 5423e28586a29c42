// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kerf.dev/kerf/kube/manifest"
	"kerf.dev/kerf/sandbox"
)

// asScheduler makes the test binary be kerf-scheduler.
const asScheduler = "KERF_SCHEDULER_TEST_AS_SCHEDULER"

func TestMain(m *testing.M) {
	if os.Getenv(asScheduler) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// patience is how long the test waits for what has to come.
const patience = 2 * time.Minute

// deployed is a cluster with kerf-scheduler as the only scheduler.
type deployed struct {
	t      *testing.T
	ctx    context.Context
	client kubernetes.Interface
	log    *lockedBuffer
}

// lockedBuffer collects what a process writes while the test reads it.
type lockedBuffer struct {
	mutex sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) text() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.String()
}

// TestDeployment runs the program as deploy/scheduler does: as its service
// account, with no rights but those of rbac.yaml, on an API server that checks
// them.
func TestDeployment(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cluster, err := sandbox.Start(ctx, sandbox.Options{Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := cluster.Parts().Stop("scheduler"); err != nil {
		t.Fatal(err)
	}
	apply(ctx, t, cluster, "../../deploy/scheduler/rbac.yaml", "testdata/devices.yaml")
	d := &deployed{t: t, ctx: ctx, client: cluster.Client(), log: &lockedBuffer{}}
	d.start(kubeconfig(ctx, t, cluster))

	d.bound("whole")
	d.bound("shared-1")
	d.bound("shared-2")
	d.refused("impossible", "cannot allocate all claims")

	d.allocated("attached")
	d.setCondition("attached", "ready")
	d.bound("attached")

	// Deallocating writes no device status, which is the driver's.
	d.allocated("broken")
	d.setCondition("broken", "failed")
	d.refused("broken", "")
	d.eventually("claim broken is deallocated", func() (bool, error) {
		claim, err := d.client.ResourceV1().ResourceClaims("default").Get(ctx, "broken", metav1.GetOptions{})
		return err == nil && len(claim.Status.Devices) == 0, err
	})

	// A claim for extended resources is created, and removed with the devices that
	// failed.
	failed := d.special("extended")
	d.allocated(failed.Name)
	d.setCondition(failed.Name, "failed")
	d.eventually("the claim is removed", func() (bool, error) {
		claim, err := d.client.ResourceV1().ResourceClaims("default").Get(ctx, failed.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && claim.UID != failed.UID, err
	})
	again := d.special("extended")
	d.allocated(again.Name)
	d.setCondition(again.Name, "ready")
	d.bound("extended")
	if log := d.log.text(); strings.Contains(log, "forbidden") || strings.Contains(log, "is not allowed") {
		t.Errorf("something was forbidden:\n%s", log)
	}
}

func apply(ctx context.Context, t *testing.T, cluster *sandbox.Sandbox, files ...string) {
	t.Helper()
	set, err := manifest.Load(nil, files...)
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Apply(ctx, set); err != nil {
		t.Fatal(err)
	}
}

// kubeconfig writes one with a token of the service account.
func kubeconfig(ctx context.Context, t *testing.T, cluster *sandbox.Sandbox) string {
	t.Helper()
	token, err := cluster.Client().CoreV1().ServiceAccounts("kube-system").CreateToken(ctx, "kerf-scheduler", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	admin := cluster.Config()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthorityData: admin.CAData}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// start starts the program with the shipped configuration.
func (d *deployed) start(kubeconfig string) {
	d.t.Helper()
	port := freePort(d.t)
	cmd := exec.Command(os.Args[0], "--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port="+port, "--v=2")
	cmd.Env = append(os.Environ(), asScheduler+"=1")
	cmd.Stdout, cmd.Stderr = d.log, d.log
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			d.t.Error(err)
		}
		// The exit code after a signal is kube-scheduler's matter.
		_ = cmd.Wait()
		if d.t.Failed() {
			d.t.Logf("log of kerf-scheduler:\n%s", d.log.text())
		}
	})
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return port
}

func (d *deployed) eventually(what string, condition func() (bool, error)) {
	d.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(d.ctx, 20*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		var ok bool
		ok, last = condition()
		return ok, nil
	})
	if err != nil {
		d.t.Fatalf("%s: %v (last error: %v)", what, err, last)
	}
}

func (d *deployed) bound(pod string) {
	d.t.Helper()
	d.eventually("pod "+pod+" is bound", func() (bool, error) {
		got, err := d.client.CoreV1().Pods("default").Get(d.ctx, pod, metav1.GetOptions{})
		return err == nil && got.Spec.NodeName != "", err
	})
}

// refused waits until the pod's condition says so, and an event.
func (d *deployed) refused(pod, reason string) {
	d.t.Helper()
	d.eventually("pod "+pod+" is refused", func() (bool, error) {
		events, err := d.client.CoreV1().Events("default").List(d.ctx, metav1.ListOptions{
			FieldSelector: fmt.Sprintf("involvedObject.name=%s,reason=FailedScheduling", pod),
		})
		if err != nil {
			return false, err
		}
		for i := range events.Items {
			if strings.Contains(events.Items[i].Message, reason) {
				return true, nil
			}
		}
		return false, nil
	})
}

// special returns the claim that was made for the extended resources of a pod.
func (d *deployed) special(pod string) (found *resourceapi.ResourceClaim) {
	d.t.Helper()
	d.eventually("pod "+pod+" has a claim", func() (bool, error) {
		claims, err := d.client.ResourceV1().ResourceClaims("default").List(d.ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range claims.Items {
			owner := metav1.GetControllerOf(&claims.Items[i])
			if owner != nil && owner.Name == pod && claims.Items[i].DeletionTimestamp == nil {
				found = &claims.Items[i]
			}
		}
		return found != nil, nil
	})
	return found
}

func (d *deployed) allocated(claim string) {
	d.t.Helper()
	d.eventually("claim "+claim+" is allocated", func() (bool, error) {
		got, err := d.client.ResourceV1().ResourceClaims("default").Get(d.ctx, claim, metav1.GetOptions{})
		return err == nil && got.Status.Allocation != nil && len(got.Status.ReservedFor) > 0, err
	})
}

// setCondition does what a driver does.
func (d *deployed) setCondition(claim, condition string) {
	d.t.Helper()
	got, err := d.client.ResourceV1().ResourceClaims("default").Get(d.ctx, claim, metav1.GetOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	result := got.Status.Allocation.Devices.Results[0]
	got.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
		Driver: result.Driver, Pool: result.Pool, Device: result.Device,
		Conditions: []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now()}},
	}}
	if _, err := d.client.ResourceV1().ResourceClaims("default").UpdateStatus(d.ctx, got, metav1.UpdateOptions{}); err != nil {
		d.t.Fatal(err)
	}
}
