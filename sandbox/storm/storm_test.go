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
)

const (
	// living is how many pods there are at any time.
	living = 200
	// pace is the time from one step to the next.
	pace = 250 * time.Millisecond
	// limit bounds waiting for something that is bound to come.
	limit = 3 * time.Minute
)

// The same seed draws the same steps. What comes of them depends on what the scheduler
// is doing at the time.
var (
	length = flag.Duration("storm", 12*time.Second, "how long pods come and go and things fail, such as 2m")
	kills  = flag.Int("kills", 2, "how often the scheduler is killed meanwhile")
	seed   = flag.Uint64("seed", 1, "of all random choices")
)

func TestStorm(t *testing.T) {
	s, err := sandbox.Start(t.Context(), sandbox.Options{ParentDir: t.TempDir(), Scheduler: sandbox.ImpatientScheduler()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
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
	for i := range state.Claims {
		t.Errorf("all pods are deleted, claim %s is left", describeClaim(&state.Claims[i]))
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
	// newer are classes for the same resource.
	newer []string
}

// blow is the storm: after it, everything is as before but for the pods. It is over
// in time, however many steps that were: a busy machine takes fewer.
func (st *storm) blow() {
	began, killed := time.Now(), 0
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for ; time.Since(began) < *length; st.step++ {
		st.mend(st.step)
		if killed < *kills && time.Since(began) >= *length*time.Duration(killed+1)/time.Duration(*kills+1) {
			st.kill()
			killed++
		}
		if st.down && st.step >= st.startAt {
			st.start()
		}
		st.comeAndGo()
		if st.random.IntN(3) == 0 {
			st.fail()
		}
		select {
		case <-ticker.C:
		case <-st.Done():
			st.t.Fatal("the sandbox has stopped")
		}
	}
	for _, step := range slices.Sorted(maps.Keys(st.mends)) {
		st.mend(step)
	}
	if st.down {
		st.start()
	}
	if killed < *kills {
		st.t.Errorf("the scheduler was killed %d times, want %d: the storm is too short for this machine", killed, *kills)
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
	st.must(st.KillScheduler())
	st.cut, st.down = false, true
	st.startAt = st.step + st.random.IntN(5)
}

func (st *storm) start() {
	st.must(st.StartScheduler(st.t.Context()))
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

// fail does one of the things that can happen to a cluster.
func (st *storm) fail() {
	switch st.random.IntN(6) {
	case 0:
		if st.cut || st.down {
			return
		}
		st.counts["cuts"]++
		st.cut = true
		st.must(st.DisconnectScheduler())
		st.lasting(6, func() {
			st.ReconnectScheduler()
			st.cut = false
		})
	case 1:
		st.replaceClass()
	case 2:
		if st.classless {
			return
		}
		st.counts["classes deleted"]++
		st.classless = true
		st.deleteClass(className)
		st.lasting(8, func() {
			st.createClass(className, resource)
			st.classless = false
		})
	case 3:
		node := nodes[st.random.IntN(len(nodes))]
		withSlice := st.random.IntN(2) == 0
		if slices.Contains(st.gone, node.name) {
			return
		}
		st.counts["nodes deleted"]++
		st.gone = append(st.gone, node.name)
		st.deleteNode(node, withSlice)
		// In a long storm that is long enough for its pods to be removed.
		st.lasting(max(int(*length/pace)*2/3, 1), func() {
			st.createNode(node, withSlice)
			st.gone = slices.DeleteFunc(st.gone, func(name string) bool { return name == node.name })
		})
	case 4:
		st.loseAnswer()
	case 5:
		st.blind()
	}
}

// steps are the writes on the way of a pod to its node.
var steps = []sandbox.Hold{
	{Verb: "create", Resource: "resourceclaims"},
	{Verb: "update", Resource: "resourceclaims"},
	{Verb: "update", Resource: "resourceclaims/status"},
	{Verb: "patch", Resource: "pods/status", Saying: []string{"extendedResourceClaimStatus"}},
	{Verb: "create", Resource: "pods/binding"},
}

// loseAnswer has the API server say that time is up for the scheduler's next write of a
// kind, whether it has carried it out or not.
func (st *storm) loseAnswer() {
	if st.holding {
		return
	}
	st.holding = true
	step := steps[st.random.IntN(len(steps))]
	step.Part, step.Done = "scheduler", st.random.IntN(2) == 0
	st.must(st.Hold(step))
	st.lasting(6, func() {
		if st.Held(step.Verb, step.Resource) && st.Release(step.Verb, step.Resource, sandbox.TimeOut) == nil {
			st.counts["answers lost"]++
		}
		st.ReleaseAll() // Nothing may have come, or who wrote it was killed.
		st.holding = false
	})
}

// blind keeps from the scheduler what becomes of claims.
func (st *storm) blind() {
	if st.holding {
		return
	}
	st.holding = true
	st.counts["blind"]++
	st.must(st.Hold(sandbox.Hold{Part: "scheduler", Verb: "watch", Resource: "resourceclaims"}))
	st.lasting(6, func() {
		st.ReleaseAll()
		st.holding = false
	})
}

// replaceClass creates a newer class for the same resource, or removes the newest.
func (st *storm) replaceClass() {
	st.counts["classes replaced"]++
	if n := len(st.newer); n > 0 && st.random.IntN(2) == 0 {
		st.deleteClass(st.newer[n-1])
		st.newer = st.newer[:n-1]
		return
	}
	name := fmt.Sprintf("%s-%d", className, st.counts["classes replaced"])
	st.createClass(name, resource)
	st.newer = append(st.newer, name)
}

func (st *storm) deletePod(name string) {
	err := st.Client().CoreV1().Pods(corev1.NamespaceDefault).Delete(st.t.Context(), name, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) { // It may have gone with its node.
		st.must(err)
	}
}

func (st *storm) settle() *cluster.State {
	st.t.Helper()
	settlement, err := st.Settle(st.t.Context(), limit)
	if err != nil {
		st.t.Fatal(err)
	}
	if len(settlement.Stuck) > 0 {
		st.t.Errorf("stuck: %v", settlement.Stuck)
	}
	return settlement.State
}

func (st *storm) must(err error) {
	st.t.Helper()
	if err != nil {
		st.t.Fatalf("step %d: %v", st.step, err)
	}
}
