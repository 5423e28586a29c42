// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package storm lets pods with extended resources come and go while nodes, classes and
// the scheduler fail, and checks the books when all is quiet again.
package storm

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/sandbox"
	"kerf.dev/kerf/sandbox/cluster"
	"kerf.dev/kerf/sandbox/sandboxtest"
)

const (
	// living is how many pods there are at any time.
	living = 200
	// pace is the time from one step to the next.
	pace = 250 * time.Millisecond
)

// The same seed draws the same steps. What comes of them depends on what the scheduler
// is doing at the time.
var (
	steps = flag.Int("steps", 48, "for how many steps pods come and go and things fail; there are four in a second, or fewer on a busy machine")
	kills = flag.Int("kills", 2, "how often the scheduler is killed meanwhile")
	seed  = flag.Uint64("seed", 1, "of all random choices")
)

func TestStorm(t *testing.T) {
	s := sandboxtest.Start(t, sandbox.Options{Scheduler: sandbox.ImpatientScheduler()})
	st := &storm{Sandbox: s, t: t, random: rand.New(rand.NewPCG(*seed, 2)), counts: map[string]int{}, mends: map[int][]func(){}}
	began := time.Now()
	st.furnish()
	st.blow()
	blown := time.Since(began)
	state := st.settle()
	st.t.Logf("seed %d, storm of %.0f s: %v; quiet %.0f s later: %s",
		*seed, blown.Seconds(), st.counts, (time.Since(began) - blown).Seconds(), summary(state))
	st.check(state)

	for _, name := range st.pods {
		st.deletePod(name)
	}
	state = st.settle()
	for i := range state.ResourceClaims {
		t.Errorf("all pods are deleted, claim %s is left", describeClaim(state.ResourceClaims[i]))
	}
}

type storm struct {
	*sandbox.Sandbox
	t      *testing.T
	random *rand.Rand
	counts map[string]int

	step    int
	created int
	pods    []string
	// mends has what ends the faults that last, by step.
	mends map[int][]func()
	// down, cut, classless, holding and gone say which of them last; a scheduler that
	// is down starts at startAt.
	down, cut, classless, holding bool
	startAt                       int
	gone                          []string
	// deck has the faults that come next, before any comes again.
	deck []int
	// newer are classes for the same resource.
	newer []string
}

// blow is the storm: after it, everything is as before but for the pods.
func (st *storm) blow() {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for ; st.step < *steps; st.step++ {
		st.mend(st.step)
		if st.step > 0 && st.step*(*kills+1)%*steps < *kills+1 {
			st.kill()
		}
		if st.down && st.step >= st.startAt {
			st.start()
		}
		st.comeAndGo()
		if st.step%2 == 0 {
			st.fail()
		}
		select {
		case <-ticker.C:
		case <-st.Done():
			st.t.Fatal("the sandbox has stopped")
		}
	}
	for len(st.mends) > 0 {
		for _, step := range slices.Sorted(maps.Keys(st.mends)) {
			st.mend(step)
		}
		st.step++
	}
	if st.down {
		st.start()
	}
	if st.counts["kills"] != *kills {
		st.t.Errorf("the scheduler was killed %d times, want %d", st.counts["kills"], *kills)
	}
	for _, fault := range faults {
		if st.counts[fault.name] == 0 {
			st.t.Errorf("there were no %s: the storm is too short", fault.name)
		}
	}
}

// mend ends the faults that last until a step.
func (st *storm) mend(step int) {
	for _, end := range st.mends[step] {
		end()
	}
	delete(st.mends, step)
}

// lasting has a fault end between one step from now and most of them, or with the storm.
func (st *storm) lasting(most int, end func()) {
	step := st.step + 1 + st.random.IntN(most)
	st.mends[step] = append(st.mends[step], end)
}

// kill ends the scheduler at once. The next one starts soon after.
func (st *storm) kill() {
	if st.down {
		st.start()
	}
	st.counts["kills"]++
	st.must(st.Parts().Kill("scheduler", ""))
	st.cut, st.down = false, true
	st.startAt = st.step + st.random.IntN(5)
}

func (st *storm) start() {
	st.must(st.Parts().Start(st.t.Context(), "scheduler", ""))
	st.down = false
}

// comeAndGo deletes some pods and creates as many as are missing.
func (st *storm) comeAndGo() {
	if len(st.pods) == living {
		for range st.random.IntN(8) {
			i := st.random.IntN(len(st.pods))
			st.deletePod(st.pods[i])
			st.pods = slices.Delete(st.pods, i, i+1)
			st.counts["deleted"]++
		}
	}
	for range min(living-len(st.pods), 40) {
		st.createPod()
	}
}

// faults are what can happen to a cluster. Each reports whether it did: some would be
// too much while others last.
var faults = []struct {
	name   string
	happen func(*storm) bool
}{
	{"cuts", (*storm).disconnect},
	{"classes replaced", (*storm).replaceClass},
	{"classes deleted", (*storm).loseClass},
	{"nodes deleted", (*storm).loseNode},
	{"answers lost", (*storm).loseAnswer},
	{"blinds", (*storm).blind},
}

// fail has one of the faults happen, each as often as the others.
func (st *storm) fail() {
	if len(st.deck) == 0 {
		st.deck = st.random.Perm(len(faults))
	}
	for i, n := range st.deck {
		if faults[n].happen(st) {
			st.counts[faults[n].name]++
			st.deck = slices.Delete(st.deck, i, i+1)
			return
		}
	}
}

func (st *storm) disconnect() bool {
	if st.cut || st.down {
		return false
	}
	st.cut = true
	st.must(st.Parts().Cut("scheduler"))
	st.lasting(6, func() {
		st.must(st.Parts().Reconnect("scheduler"))
		st.cut = false
	})
	return true
}

func (st *storm) loseClass() bool {
	if st.classless {
		return false
	}
	st.classless = true
	st.deleteClass(className)
	st.lasting(8, func() {
		st.createClass(className, resource)
		st.classless = false
	})
	return true
}

func (st *storm) loseNode() bool {
	node := nodes[st.random.IntN(len(nodes))]
	withSlice := st.random.IntN(2) == 0
	if slices.Contains(st.gone, node.name) {
		return false
	}
	st.gone = append(st.gone, node.name)
	st.deleteNode(node, withSlice)
	// In a long storm that is long enough for its pods to be removed.
	st.lasting(max(*steps*2/3, 1), func() {
		st.createNode(node, withSlice)
		st.gone = slices.DeleteFunc(st.gone, func(name string) bool { return name == node.name })
	})
	return true
}

// writes are those on the way of a pod to its node.
var writes = []sandbox.Hold{
	{Verb: "create", Resource: "resourceclaims"},
	{Verb: "update", Resource: "resourceclaims"},
	{Verb: "update", Resource: "resourceclaims/status"},
	{Verb: "patch", Resource: "pods/status", Saying: []string{"extendedResourceClaimStatus"}},
	{Verb: "create", Resource: "pods/binding"},
}

// loseAnswer has the API server say that time is up for the scheduler's next write of a
// kind, whether it has carried it out or not.
func (st *storm) loseAnswer() bool {
	if st.holding || st.cut || st.down {
		return false
	}
	st.holding = true
	write := writes[st.random.IntN(len(writes))]
	write.Part, write.Done = "scheduler", st.random.IntN(2) == 0
	st.hold(write)
	st.lasting(6, func() {
		if st.Holds().Held(write.Verb, write.Resource) && st.Holds().Release(write.Verb, write.Resource, sandbox.TimeOut) == nil {
			st.counts["answers that were waited for"]++
		}
		st.Holds().ReleaseAll() // Nothing may have come, or who wrote it was killed.
		st.holding = false
	})
	return true
}

// blind keeps from the scheduler what becomes of claims.
func (st *storm) blind() bool {
	if st.holding {
		return false
	}
	st.holding = true
	st.hold(sandbox.Hold{Part: "scheduler", Verb: "watch", Resource: "resourceclaims"})
	st.lasting(6, func() {
		st.Holds().ReleaseAll()
		st.holding = false
	})
	return true
}

func (st *storm) hold(h sandbox.Hold) {
	_, err := st.Holds().Add(h)
	st.must(err)
}

// replaceClass creates a newer class for the same resource, or removes the newest.
func (st *storm) replaceClass() bool {
	if n := len(st.newer); n > 0 && st.random.IntN(2) == 0 {
		st.deleteClass(st.newer[n-1])
		st.newer = st.newer[:n-1]
		return true
	}
	name := fmt.Sprintf("%s-%d", className, st.step)
	st.createClass(name, resource)
	st.newer = append(st.newer, name)
	return true
}

func (st *storm) deletePod(name string) {
	remove := func() error {
		return st.Client().CoreV1().Pods(corev1.NamespaceDefault).Delete(st.t.Context(), name, metav1.DeleteOptions{})
	}
	err := remove()
	if apierrors.IsTimeout(err) { // It may have gone or not: asked again, the API server tells.
		err = remove()
	}
	if !apierrors.IsNotFound(err) { // It may have gone with its node.
		st.must(err)
	}
}

func (st *storm) settle() *cluster.State {
	st.t.Helper()
	return sandboxtest.Settle(st.t, st.Sandbox)
}

func (st *storm) must(err error) {
	st.t.Helper()
	if err != nil {
		st.t.Fatalf("step %d: %v", st.step, err)
	}
}
