// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// world is a cluster and a fabric in miniature: an API that keeps attachments,
// claims and guards, drivers that publish what is there, a scheduler that
// allocates, hands over and gives up, and a caller that carries out the planner's
// steps late, in any order, or never, because it crashes.
type world struct {
	t       *testing.T
	seed    uint64
	rng     *rand.Rand
	now     time.Time
	policy  Policy
	manager *simManager

	attachments map[string]Attachment
	claims      map[types.UID]*Claim
	want        map[types.UID]int
	targets     map[types.UID]map[LocalDevice]LocalDevice
	reasons     map[types.UID]Reason
	guards      map[string]*simGuard
	nodes       map[string]MachineRef
	local       map[LocalDevice]DeviceRef // what drivers publish
	nodeOf      map[LocalDevice]string
	hidden      map[DeviceRef]bool // never published
	unlike      map[DeviceRef]bool // published otherwise than promised
	withheld    map[DeviceRef]bool // as the fabric's status says
	nodeless    map[string]bool    // attachments: the machine was no node when Detach was planned
	offers      []Offer
	kept        map[LocalDevice]types.UID // in the fabric's pool

	planner  *Planner
	news     []func(*Planner) // in order, not delivered yet
	underWay []Step
	wake     time.Time
	trace    []string
	taken    map[*Transition]int
	pace     int
	calm     bool // no new allocations
}

type simGuard struct {
	GuardStatus
	set SetGuard
}

const simDriver = "gpu.example.com"

func newWorld(t *testing.T, seed uint64, policy Policy, identity bool) *world {
	w := &world{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), policy: policy,
		attachments: map[string]Attachment{}, claims: map[types.UID]*Claim{}, want: map[types.UID]int{},
		targets: map[types.UID]map[LocalDevice]LocalDevice{}, reasons: map[types.UID]Reason{}, guards: map[string]*simGuard{},
		nodes: map[string]MachineRef{}, local: map[LocalDevice]DeviceRef{}, nodeOf: map[LocalDevice]string{},
		hidden: map[DeviceRef]bool{}, unlike: map[DeviceRef]bool{}, withheld: map[DeviceRef]bool{}, nodeless: map[string]bool{}, taken: map[*Transition]int{}, pace: 1,
	}
	w.manager = &simManager{rng: w.rng, now: &w.now, faults: true, devices: map[DeviceRef]*Device{}, gone: map[DeviceRef]Device{},
		ended: map[OperationID]Operation{}, handles: seed%4 != 0, mostAt: map[MachineRef]int{}}
	for i := range 4 {
		ref := MachineRef(fmt.Sprint("/Systems/", i))
		w.manager.machines = append(w.manager.machines, Machine{Ref: ref, Zones: []string{"z"}})
		if i < 3 { // the last is no node
			w.nodes[fmt.Sprint("node-", i)] = ref
		}
	}
	for i := range 6 {
		d := Device{Ref: DeviceRef(fmt.Sprint("/Blocks/", i)), Model: "A", Zones: []string{"z"}, Healthy: true}
		if identity {
			d.UUID = fmt.Sprint("UUID-", i)
		}
		w.manager.devices[d.Ref] = &d
		w.unlike[d.Ref] = i == 5 && seed%3 == 0
	}
	w.restart()
	return w
}

// restart replaces the planner by one that knows what the API keeps.
func (w *world) restart() {
	w.trace = append(w.trace, "RESTART")
	w.news, w.wake = nil, time.Time{}
	// What was under way is carried out, or not; nobody learns.
	for _, step := range w.underWay {
		if w.rng.IntN(2) == 0 {
			w.carryOut(step)
		}
	}
	w.news, w.underWay = nil, nil
	w.planner = New(w.policy)
	for _, a := range w.attachments {
		w.planner.ObserveAttachment(a)
	}
	for name, g := range w.guards {
		w.planner.ObserveGuard(name, g.GuardStatus)
	}
	for _, c := range w.claims {
		w.planner.ObserveClaim(*c)
	}
	for name, m := range w.nodes {
		w.planner.ObserveNode(Node{name, m})
		w.planner.ObservePool(w.pool(name))
	}
	for ref := range w.withheld {
		w.planner.ObserveWithheld("a", ref)
	}
	w.planner.Ready()
}

func (w *world) tell(news func(*Planner)) { w.news = append(w.news, news) }

func (w *world) pool(node string) NodePool {
	pool := NodePool{Node: node, Driver: simDriver, Pool: node}
	for _, name := range slices.SortedFunc(maps.Keys(w.local), compareDevices) {
		if w.nodeOf[name] == node {
			d := NodeDevice{Name: name.Device, Attributes: map[string]string{"model": "A"}}
			if w.unlike[w.local[name]] {
				d.Attributes["model"] = "B"
			}
			if dev := w.manager.devices[w.local[name]]; dev != nil {
				d.Identity = strings.ToUpper(dev.UUID)
			}
			pool.Devices = append(pool.Devices, d)
		}
	}
	return pool
}

func (w *world) claimChanged(c *Claim) {
	copied := *c
	copied.Devices = slices.Clone(c.Devices)
	w.tell(func(p *Planner) { p.ObserveClaim(copied) })
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d, %s: %s\nlast steps:\n%s", w.seed, w.now.Format(time.TimeOnly), fmt.Sprintf(format, args...),
		strings.Join(w.trace[max(0, len(w.trace)-60):], "\n"))
}

// carryOut does what a step says and returns how it went, as the caller sees it.
func (w *world) carryOut(step Step) Outcome {
	w.trace = append(w.trace, w.now.Format(time.TimeOnly)+" "+step.String())
	lostBefore, lostAfter := w.manager.chance(3), w.manager.chance(3)
	if lostBefore {
		return Outcome{Err: errLost}
	}
	outcome := Outcome{}
	switch action := step.Action.(type) {
	case ReadInventory:
		outcome.Inventory, outcome.Err = w.manager.inventory()
	case CallAttach:
		if w.withheld[action.Device] {
			w.fail("%s is attached again", action.Device)
		}
		w.keptFor(w.attachments[action.Name])
		outcome.Operation, outcome.Err = w.manager.start("attach", action.Device, action.Machine, "", action.Machine)
	case CallDetach:
		w.unused(action.Device, "called to detach")
		outcome.Operation, outcome.Err = w.manager.start("detach", action.Device, action.Machine, action.Machine, "")
	case PollOperation:
		outcome.Operation, outcome.Err = w.manager.operation(action.ID)
	case SetGuard:
		w.setGuard(action)
	case SetCondition:
		w.setCondition(action)
	default:
		outcome.Err = w.write(action)
	}
	if outcome.Err == nil && lostAfter {
		outcome.Err = errLost
	}
	return outcome
}

func (w *world) write(action Action) error {
	switch action := action.(type) {
	case CreateAttachment:
		old, exists := w.attachments[action.Attachment.Name]
		if exists {
			w.planner.ObserveAttachment(old)
			return nil
		}
		w.store(action.Attachment)
	case RecordStatus:
		w.checkTarget(w.attachments[action.Name], action.Status)
		old, exists := w.attachments[action.Name]
		if !exists || old.Status.Revision != action.Status.Revision-1 {
			return fmt.Errorf("conflict")
		}
		old.Status = action.Status
		w.store(old)
	case Withhold:
		if !w.unlike[action.Device] {
			w.fail("%s is withheld: %s", action.Device, action.Difference)
		}
		w.withheld[action.Device] = true
	case DeleteAttachment:
		delete(w.attachments, action.Name)
		delete(w.guards, action.Name)
		delete(w.nodeless, action.Name)
		w.tell(func(p *Planner) { p.ForgetAttachment(action.Name) })
	}
	return nil
}

// checkTarget looks whether a device without identity is taken for the right one.
// With identity, what the planner was told last may be old, and is corrected.
func (w *world) checkTarget(a Attachment, next AttachmentStatus) {
	t := next.Target
	if t == nil || equalDevices(t, a.Status.Target) || w.local[*t] == "" || w.local[*t] == a.Spec.Device {
		return
	}
	if d := w.manager.devices[a.Spec.Device]; d != nil && d.UUID == "" {
		w.fail("%s takes %v, which is %s, for %s", a.Name, *t, w.local[*t], a.Spec.Device)
	}
}

func (w *world) store(a Attachment) {
	w.attachments[a.Name] = a
	w.tell(func(p *Planner) { p.ObserveAttachment(a) })
}

func (w *world) setGuard(action SetGuard) {
	g := &simGuard{GuardStatus{action.Guard, action.Device, action.Guard == GuardNone}, action}
	w.guards[action.Attachment.Name] = g
	status := g.GuardStatus
	w.tell(func(p *Planner) { p.ObserveGuard(action.Attachment.Name, status) })
}

func (w *world) setCondition(action SetCondition) {
	c := w.claims[action.Claim.UID]
	if c == nil || !c.AllocatedAt.Equal(action.AllocatedAt) {
		return
	}
	d := c.device(action.Device)
	if d == nil {
		return
	}
	if action.Failed {
		if action.Reason == "" || action.Message == "" {
			w.fail("claim %s failed without reason or message", c.UID)
		}
		d.Failed, w.reasons[c.UID] = true, action.Reason
	} else {
		d.Attached = true
		w.targets[c.UID][action.Device] = *action.Target
	}
	w.claimChanged(c)
}

// users are the claims that a pod may use the device with.
func (w *world) users(ref DeviceRef) []types.UID {
	var users []types.UID
	for uid, c := range w.claims {
		for _, d := range c.Devices {
			if w.local[d.LocalDevice] == ref {
				users = append(users, uid)
			}
		}
	}
	for _, a := range w.attachments {
		if a.Spec.Device == ref && w.policy.HandOver == Resolve && a.Spec.Claim != nil && a.Status.Target != nil {
			if c := w.claims[a.Spec.Claim.UID]; c != nil && c.Reserved && c.device(a.Spec.Offer) != nil {
				users = append(users, c.UID)
			}
		}
	}
	return users
}

// escaped tells whether the guard names the device as it was called before, or was
// not needed, since the machine was no node: a driver that restarts while a device is
// drained and names its devices anew, or a node that appears then, has it unguarded.
func (w *world) escaped(ref DeviceRef) bool {
	for name, a := range w.attachments {
		if a.Spec.Device != ref {
			continue
		}
		g := w.guards[name]
		if w.nodeless[name] || g != nil && g.Guard == GuardDrain && g.set.Device != nil && w.local[*g.set.Device] != ref {
			return true
		}
	}
	return false
}

func (w *world) unused(ref DeviceRef, what string) {
	if users := w.users(ref); len(users) > 0 && !w.escaped(ref) {
		w.fail("%s is %s while %v uses it, published %v\n%s", ref, what, users, w.local, w.show())
	}
}

// check looks at what must be true at any moment.
func (w *world) check() {
	for ref := range w.manager.devices {
		if users := w.users(ref); len(users) > 1 {
			w.fail("%s is used by %v", ref, users)
		}
		var wanted []string
		for name, a := range w.attachments {
			e := entry{Attachment: a}
			if a.Spec.Device == ref && e.wanted() && e.started() {
				wanted = append(wanted, name)
			}
		}
		if len(wanted) > 1 {
			w.fail("%s is attached for %v", ref, wanted)
		}
	}
	limits := w.policy.WithDefaults().Limits
	if w.manager.most > limits.Concurrent {
		w.fail("%d operations at once", w.manager.most)
	}
	for m, n := range w.manager.mostAt {
		if n > limits.PerMachine {
			w.fail("%d operations at once on %s", n, m)
		}
	}
}

// step lets some time pass in which everybody may do something.
func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.pace*(1+w.rng.IntN(4))) * time.Second)
	w.manager.tick(func(ref DeviceRef, from, to MachineRef) {
		w.trace = append(w.trace, fmt.Sprintf("%s %s moved from %q to %q", w.now.Format(time.TimeOnly), ref, from, to))
		// The scheduler honours the guard, so the device must be unused to the end.
		if to == "" {
			w.unused(ref, "detached")
		}
	})
	w.drivers()
	w.acknowledge()
	w.publish()
	w.schedule()
	if w.rng.IntN(3) > 0 {
		n := w.rng.IntN(len(w.news) + 1)
		for _, news := range w.news[:n] {
			news(w.planner)
		}
		w.news = w.news[n:]
	}
	plan := w.planner.Plan(w.now)
	w.underWay, w.wake = append(w.underWay, plan.Steps...), plan.Wake
	for _, s := range plan.Steps {
		if s.Because != nil {
			w.taken[s.Because]++
		}
		if call, ok := s.Action.(CallDetach); ok {
			w.nodeless[call.Name] = w.planner.nodeOf[call.Machine] == ""
		}
	}
	for range w.rng.IntN(4) {
		if len(w.underWay) == 0 {
			break
		}
		i := w.rng.IntN(len(w.underWay))
		step := w.underWay[i]
		w.underWay = slices.Delete(w.underWay, i, i+1)
		w.planner.Report(step, w.carryOut(step), w.now)
	}
	w.check()
}

// drivers publish what arrived and withdraw what left.
func (w *world) drivers() {
	changed := map[string]bool{}
	at := map[DeviceRef]string{}
	for i := range 3 {
		for ref, d := range w.manager.devices {
			if d.Machine == w.manager.machines[i].Ref {
				at[ref] = fmt.Sprint("node-", i)
			}
		}
	}
	published := map[DeviceRef]bool{}
	for name, ref := range w.local {
		if at[ref] != w.nodeOf[name] {
			changed[w.nodeOf[name]] = true
			delete(w.local, name)
			delete(w.nodeOf, name)
			continue
		}
		published[ref] = true
	}
	for _, ref := range slices.Sorted(maps.Keys(at)) {
		if published[ref] || w.hidden[ref] && w.manager.faults || w.rng.IntN(3) > 0 {
			continue
		}
		node := at[ref]
		for i := 0; ; i++ {
			name := LocalDevice{simDriver, node, fmt.Sprint("gpu-", i)}
			if _, used := w.local[name]; !used && !w.held(name) {
				w.local[name], w.nodeOf[name] = ref, node
				break
			}
		}
		changed[node] = true
	}
	for node := range changed {
		if _, exists := w.nodes[node]; exists {
			pool := w.pool(node)
			w.tell(func(p *Planner) { p.ObservePool(pool) })
		}
	}
}

func (w *world) held(name LocalDevice) bool {
	for _, c := range w.claims {
		if c.device(name) != nil {
			return true
		}
	}
	return false
}

// publish writes the fabric's pool, now and then, and says so.
func (w *world) publish() {
	if w.rng.IntN(3) > 0 || w.planner.inventoryAt.IsZero() {
		return
	}
	w.offers, w.kept = w.planner.Offers(), map[LocalDevice]types.UID{}
	for _, o := range w.offers {
		if o.Kept != "" {
			w.kept[o.LocalDevice] = o.Kept
		}
	}
	kept := maps.Clone(w.kept)
	w.tell(func(p *Planner) { p.ObserveKept(kept) })
}

// keptFor checks that nobody else can take the device of an attachment, when it is
// about to be attached.
func (w *world) keptFor(a Attachment) {
	g := w.policy.Guards
	switch rule := w.guards[a.Name]; {
	case a.Spec.Claim == nil || g == Guards{}:
	case g.Rules && (rule == nil || !rule.Acknowledged || rule.Guard != GuardPool):
		w.fail("%s is attached without a rule", a.Name)
	case a.Spec.Tainted && !a.NodeGuarded:
		w.fail("%s is attached without a taint", a.Name)
	case g.Reservation && a.Spec.Identity != nil && !a.Spec.Template && w.kept[a.Spec.Offer] != a.Spec.Claim.UID:
		w.fail("%s is attached without a reservation", a.Name)
	}
}

// keptFrom tells whether the node, or the fabric's pool, keeps a device for another
// claim.
func (w *world) keptFrom(c *Claim, name LocalDevice) bool {
	for _, a := range w.attachments {
		if a.Spec.Device != w.local[name] || a.Spec.Claim == nil || a.Spec.Claim.UID == c.UID {
			continue
		}
		if w.policy.Guards.Reservation && w.kept[a.Spec.Offer] == a.Spec.Claim.UID || a.NodeGuarded && underWay(a.Status.Phase) {
			return true
		}
	}
	return false
}

// underWay tells whether the node has the taint.
func underWay(phase Phase) bool {
	return phase == "" || phase == PhaseAllocated || phaseInfo[phase].Kept
}

func (w *world) acknowledge() {
	for _, name := range slices.Sorted(maps.Keys(w.attachments)) {
		if a := w.attachments[name]; a.Spec.Tainted && underWay(a.Status.Phase) && !a.NodeGuarded && w.rng.IntN(2) == 0 {
			a.NodeGuarded = true
			w.store(a)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.guards)) {
		if g := w.guards[name]; !g.Acknowledged && w.rng.IntN(2) == 0 {
			g.Acknowledged = true
			status := g.GuardStatus
			w.tell(func(p *Planner) { p.ObserveGuard(name, status) })
		}
	}
}
