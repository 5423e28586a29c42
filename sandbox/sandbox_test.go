// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"

	"go.uber.org/goleak"

	"kerf.dev/kerf/kube/rules"
)

// limit bounds waiting for something that is bound to come.
const limit = 2 * time.Minute

// TestSandbox runs all checks on one control plane, in this order: there can be
// only one in a process.
func TestSandbox(t *testing.T) {
	leaks := ignoredGoroutines()
	thinker, told := &ponder{started: make(chan struct{}, 1), think: make(chan struct{})}, make(chan string, 100)
	s, err := Start(t.Context(), Options{Nodes: 2, ParentDir: t.TempDir(), Scheduler: thinker.scheduler(), Progress: func(text string) { told <- text }})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	defer func() {
		if !stopped {
			t.Error(s.Stop())
		}
	}()

	for _, check := range []struct {
		name string
		run  func(*testing.T, *Sandbox)
	}{
		{"features", testFeatures},
		{"parts", testParts},
		{"authentication", testAuthentication},
		{"first pod", testFirstPod},
		{"apply", testApply},
		{"refusal", testRefusal},
		{"claim template", testClaimTemplate},
		{"workloads", testWorkloads},
		{"eviction", testEviction},
		{"quota", testQuota},
		{"policy", testPolicy},
		{"two special claims", testTwoSpecialClaims},
		{"scheduler restart", testSchedulerRestart},
		{"scheduler kill", testSchedulerKill},
		{"hostile pods", testHostilePods},
		{"fabric", testFabric},
		{"pondering", func(t *testing.T, s *Sandbox) { testPondering(t, s, thinker, told) }},
		{"admission", testAdmission},
		{"stored", testStored},
		{"stuck", testStuck},
	} {
		if !t.Run(check.name, func(t *testing.T) { check.run(t, s) }) {
			logTail(t, s)
		}
	}

	stopped = true
	t.Run("shutdown", func(t *testing.T) { testShutdown(t, s, leaks) })
}

// ignoredGoroutines are those that stay after the sandbox has stopped.
func ignoredGoroutines() []goleak.Option {
	// A goroutine of k8s.io/apiserver that is started once per process with the
	// first health check, checks that logging does not hang, and has no end.
	_ = healthz.LogHealthz.Check(nil)
	return []goleak.Option{
		goleak.IgnoreCurrent(),
		// A consistent list from the watch cache starts a timer of three seconds,
		// which nothing can stop early. It ends by itself.
		goleak.IgnoreTopFunction("k8s.io/apiserver/pkg/storage/cacher.(*watchCache).waitUntilFreshLocked.func2"),
	}
}

func testFeatures(t *testing.T, s *Sandbox) {
	for gate := range rules.FeatureGates() {
		if !utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(gate)) {
			t.Errorf("feature gate %s is off", gate)
		}
	}
	groups, err := s.Client().Discovery().ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]bool{}
	for _, group := range groups.Groups {
		for _, version := range group.Versions {
			served[version.GroupVersion] = true
		}
	}
	for version := range servedVersions() {
		if !served[version] {
			t.Errorf("%s is not served", version)
		}
	}
}

// testParts expects that all parts are known by name, and what cannot be done is refused.
func testParts(t *testing.T, s *Sandbox) {
	const all = "etcd, kube-apiserver, kube-controller-manager, observer, nodes, scheduler, driver, redfish, controller"
	for want, err := range map[string]error{
		"kill moon: there is no such part; the parts are " + all:                                      s.Parts().Kill("moon", ""),
		"kill etcd: this part lives as long as the sandbox":                                           s.Parts().Kill("etcd", ""),
		"start nodes: it is running":                                                                  s.Parts().Start(t.Context(), "nodes", ""),
		"cut off redfish: this part has no connection to the API server that could be cut":            s.Parts().Cut("redfish"),
		"kill driver: no driver runs":                                                                 s.Parts().Kill("driver", "node-1"),
		"kill redfish: the sandbox has no shelf of devices":                                           s.Parts().Kill("redfish", ""),
		"start controller: kerf-controller: no kinds of a fabric are installed: start the rack first": s.Parts().Start(t.Context(), "controller", ""),
		"cut off controller: it is not running":                                                       s.Parts().Cut("controller"),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// testAuthentication expects the API server to know nobody without a
// certificate.
func testAuthentication(t *testing.T, s *Sandbox) {
	client, err := rest.HTTPClientFor(rest.AnonymousClientConfig(s.Config()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	response, err := client.Get(s.Config().Host + "/api/v1/namespaces")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("status without credentials = %d, want %d", response.StatusCode, http.StatusUnauthorized)
	}
	if info, err := os.Stat(s.Kubeconfig()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("kubeconfig: mode %v, error %v, want 0600", info.Mode(), err)
	}
}

// testShutdown stops the sandbox and expects that nothing of it is left.
func testShutdown(t *testing.T, s *Sandbox, leaks []goleak.Option) {
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if err := s.Stop(); err != nil {
		t.Errorf("second Stop: %v", err)
	}
	select {
	case <-s.Done():
	default:
		t.Error("Done is not closed")
	}
	if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
		t.Errorf("directory %s: %v, want it gone", s.dir, err)
	}
	if conn, err := net.Dial("tcp", s.address); err == nil {
		t.Errorf("port %s is still open", s.address)
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := goleak.Find(leaks...); err != nil {
		t.Error(err)
	}
}

// settle waits until nothing moves and fails the test if that does not happen.
func settle(t *testing.T, s *Sandbox) *Settlement {
	t.Helper()
	settlement, err := s.Settle(t.Context(), limit)
	if err != nil {
		t.Fatal(err)
	}
	return settlement
}

// logTail shows the end of the components' log.
func logTail(t *testing.T, s *Sandbox) {
	t.Helper()
	data, err := os.ReadFile(s.LogFile())
	if err != nil {
		t.Error(err)
		return
	}
	t.Logf("components' log:\n%s", data[max(0, len(data)-8000):])
}
