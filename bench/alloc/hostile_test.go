// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

var (
	hostile  = flag.Duration("hostile", 0, "draw attacks for so long and report those above the limits; goes with -timeout")
	fromSeed = flag.Uint64("seed", 1, "where the drawing of attacks begins")
	single   = flag.String("attack", "", "measure this attack only, for example 'cel devices=8 fits=8'")
	patience = flag.Duration("patience", time.Minute, "time after which kerf is stopped")
	alone    = flag.String("alone", "", "kerf or stock: be the process that measures -attack and writes the attempt to the standard output")
)

// Limits of an attempt on a node with 256 devices.
const (
	longest  = time.Second
	largest  = 256 << 20
	slowest  = 3 // times the stock allocator's time, where that answers within longest
	ordinary = 256
)

// stockPatience is the time after which the stock allocator is stopped, and
// heapLimit what stops either.
const (
	stockPatience = 10 * time.Second
	heapLimit     = 3 << 30
)

// TestMain runs the tests, or is the process that measures one attempt.
func TestMain(m *testing.M) {
	flag.Parse()
	if *alone == "" {
		os.Exit(m.Run())
	}
	if err := measureAlone(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// measureAlone measures an attack in this process, which nothing else uses, and
// ends it where that takes too much.
func measureAlone() error {
	p, err := parsePlan(*single)
	if err != nil {
		return err
	}
	warmUp()
	a := p.attack()
	limit := *patience
	if *alone == "stock" {
		limit = stockPatience * 3 / 2 // it stops by itself, but looks seldom
	}
	over := func(t attempt) {
		if why := excess(&t, limit); why != "" {
			t.Outcome, t.Reason = stopped, why
			if report(t) == nil {
				os.Exit(0)
			}
			os.Exit(1)
		}
	}
	try := func() (attempt, error) { return a.try(over) }
	if *alone == "stock" {
		try = func() (attempt, error) { return a.tryStock(stockPatience, over), nil }
	}
	t, err := try()
	if err == nil {
		err = often(&t, try)
	}
	if err != nil {
		return err
	}
	return report(t)
}

// excess says which limit that is not to be measured further an attempt reached.
func excess(t *attempt, limit time.Duration) string {
	for _, s := range t.stages() {
		switch {
		case s.Wall > limit:
			return fmt.Sprintf("%s stopped after %s", s.name, limit)
		case s.Peak > heapLimit:
			return fmt.Sprintf("%s stopped at %s", s.name, mebibytes(heapLimit))
		}
	}
	return ""
}

func report(t attempt) error { return json.NewEncoder(os.Stdout).Encode(t) }

// warmUp makes what CEL makes once per process.
func warmUp() {
	cache := newCache()
	cache.GetOrCompile("true")
	cache.GetOrCompileDerivedAttribute("true")
}

// often repeats what takes little time, and leaves the least time in the first
// attempt.
func often(first *attempt, again func() (attempt, error)) error {
	for n := 1; n < 7 && first.Outcome != stopped && first.Attempt.CPU < 100*time.Millisecond; n++ {
		next, err := again()
		if err != nil {
			return err
		}
		others := next.stages()
		for i, s := range first.stages() {
			s.Wall, s.CPU = min(s.Wall, others[i].Wall), min(s.CPU, others[i].CPU)
		}
	}
	return nil
}

// inOwnProcess measures an attack in a process of its own.
func inOwnProcess(t *testing.T, who string, p plan) attempt {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-alone", who, "-attack", p.String(), "-patience", patience.String())
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	var result attempt
	if err := errors.Join(cmd.Run(), json.Unmarshal(out.Bytes(), &result)); err != nil {
		t.Fatalf("%s: %s: %v\n%s", who, p, err, failure.String())
	}
	return result
}

// comparison is an attack with the attempts of both.
type comparison struct {
	plan
	kerf, stock attempt
}

func compareAlone(t *testing.T, p plan) comparison {
	return comparison{p, inOwnProcess(t, "kerf", p), inOwnProcess(t, "stock", p)}
}

// ratio is that of the processor times, and whether it counts: the stock
// allocator has an answer in time.
func (c *comparison) ratio() (float64, bool) {
	r := c.kerf.Attempt.CPU.Seconds() / max(c.stock.Attempt.CPU, time.Microsecond).Seconds()
	return r, c.stock.Outcome != stopped && c.stock.Outcome != failed && !c.stock.Apart && c.stock.Attempt.Wall <= longest
}

// faults says what is above the limits.
func (c *comparison) faults() []string {
	var all []string
	if c.sizes["devices"] > ordinary {
		return nil
	}
	for _, s := range c.kerf.stages() {
		if s.Wall > longest && s.CPU > longest {
			all = append(all, fmt.Sprintf("%s took %s", s.name, rounded(s.CPU)))
		}
		if s.Peak > largest {
			all = append(all, fmt.Sprintf("%s had %s at once", s.name, mebibytes(s.Peak)))
		}
	}
	if r, counts := c.ratio(); counts && r > slowest && c.kerf.Attempt.CPU > noise {
		all = append(all, fmt.Sprintf("attempt took %s times as long as the stock allocator's", digits(r)))
	}
	return all
}

// noise is a time that says nothing about an allocator when it is measured once.
const noise = 20 * time.Millisecond

// rows of the table.
var hostileRows = []string{
	"cel devices=8", "cel devices=8 fits=8", "cel devices=256", "regexes", "regexes devices=256",
	"shares fill=95 seed=6", "shares devices=16 requests=32 alternatives=8", "shares devices=256 requests=32 alternatives=8 capacities=31",
	"lists devices=256 domain=180 requests=32", "lists devices=512 domain=180 requests=32", "lists devices=2048",
	"refusal claims=6 values=8", "refusal claims=10 values=8", "refusal claims=20 values=8",
	"partitions claims=20 values=256", "partitions claims=100 values=256",
	"counters devices=256", "counters devices=2048", "counters devices=4096", "counters devices=8192",
	"derived", "failing", "selectors selectors=32", "versions", "values", "held", "all", "strings", "distinct", "colours", "chains", "admin", "sets", "groups",
	"taints", "room", "pools",
}

// drawnOnce are attacks that were drawn and found a mistake: a refusal that was proved
// before all requests were judged, and could not be explained.
var drawnOnce = []string{"derived devices=4 claims=20 requests=2 seed=898593597"}

// drawnQuick are attacks that were drawn and took many times as long as with the stock
// allocator, which ends them in a few milliseconds: it takes the first devices, or sees
// early that there are none. Work is what they may take now, in millions of units; it was
// several times as much, but where the time went into texts.
var drawnQuick = []struct {
	text   string
	answer outcome
	work   float64
}{
	{"shares devices=4 capacities=1 requests=15 alternatives=6 fill=101 seed=753168737", fits, 0.7},
	{"chains devices=4 claims=50 requests=32 groups=37 seed=393862278", refused, 1},
	{"partitions devices=1 claims=100 requests=32 alternatives=2 constraints=24 values=256 seed=984948286", refused, 1.5},
	{"strings devices=18 values=47 requests=16 alternatives=8 seed=434030096", fits, 1.6},
	{"strings devices=1 values=47 requests=32 alternatives=6 seed=390951617", refused, 2},
	{"strings devices=2 values=5 requests=11 alternatives=8 seed=1038579354", refused, 2},
	{"admin devices=256 claims=94 requests=1 alternatives=1 constraints=30 values=33 seed=575018834", fits, 0.8},
	{"admin devices=1 claims=100 requests=10 alternatives=4 constraints=30 values=256 seed=248672582", refused, 1.2},
	{"refusal devices=69 claims=9 requests=32 alternatives=3 constraints=30 values=0 seed=469009750", refused, 0.8},
	{"regexes devices=6 alternatives=8 selectors=20 rounds=2 seed=115028024", fits, 6},
	{"versions devices=43 requests=32 alternatives=8 selectors=20 seed=741837672", refused, 4},
	{"versions devices=12 requests=17 alternatives=3 selectors=32 seed=810354799", refused, 2},
	{"taints devices=35 rules=1000 requests=1 alternatives=8 seed=143258380", refused, 0.8},
	{"selectors devices=256 requests=15 alternatives=1 selectors=32 seed=452427926", fits, 70},
}

// TestHostile checks on small attacks of all kinds that their effort is bounded.
// On demand it prints the table of docs/performance.md, measures one attack, or
// draws attacks and reports those above the limits.
func TestHostile(t *testing.T) {
	switch {
	case *single != "":
		p, err := parsePlan(*single)
		if err != nil {
			t.Fatal(err)
		}
		c := compareAlone(t, p)
		writeHostile([]comparison{c})
		fmt.Printf("\nkerf: %s\n%d units of work, %.1f ns each\nstock: %s\n", c.kerf.Reason, c.kerf.Work, float64(c.kerf.Attempt.CPU.Nanoseconds())/float64(c.kerf.Work), c.stock.Reason)
	case *table:
		heading()
		for _, text := range hostileRows {
			c := compareAlone(t, mustPlan(text))
			c.write()
		}
		for _, q := range drawnQuick {
			c := compareAlone(t, mustPlan(q.text))
			c.write()
		}
	case *hostile > 0:
		drawHostile(t, time.Now().Add(*hostile))
	default:
		for _, k := range kinds() {
			t.Run(k.name, func(t *testing.T) { tryModerate(t, mustPlan(k.name+" "+k.moderate)) })
		}
		for _, text := range drawnOnce {
			t.Run(text, func(t *testing.T) { tryModerate(t, mustPlan(text)) })
		}
		for _, q := range drawnQuick {
			t.Run(q.text, func(t *testing.T) {
				a := tryModerate(t, mustPlan(q.text))
				if a.Outcome != q.answer || float64(a.Work) > q.work*1e6 {
					t.Errorf("%s, work %d, want %s and at most %.1f million", a.Outcome, a.Work, q.answer, q.work)
				}
			})
		}
	}
}

// drawHostile draws attacks until it is time to end.
func drawHostile(t *testing.T, end time.Time) {
	rnd := rand.New(rand.NewPCG(*fromSeed, 0))
	drawn, all := 0, kinds()
	for ; time.Now().Before(end); drawn++ {
		c := compareAlone(t, all[drawn%len(all)].draw(rnd, ordinary))
		if faults := c.faults(); len(faults) > 0 {
			t.Errorf("-attack '%s': %s: %s", c.plan, c.kerf.Outcome, strings.Join(faults, "; "))
		}
	}
	t.Logf("%d attacks drawn, of %d kinds", drawn, len(all))
}

// What a moderate attack may take.
const (
	moderateWork      = 110_000_000 // the default budget and one evaluation at the limit of CEL, see alloc.Outcome
	moderateAllocated = 128 << 20
)

func tryModerate(t *testing.T, p plan) attempt {
	a, err := p.attack().try(func(attempt) {})
	if err != nil {
		t.Fatalf("%s: %v", p, err)
	}
	for _, s := range a.stages() {
		if s.Allocated > moderateAllocated {
			t.Errorf("%s: the %s allocates %s, want at most %s", p, s.name, mebibytes(s.Allocated), mebibytes(moderateAllocated))
		}
	}
	if a.Work > moderateWork {
		t.Errorf("%s: work %d, want at most %d", p, a.Work, moderateWork)
	}
	t.Logf("%s: %s, work %d", p, a.Outcome, a.Work)
	return a
}

func writeHostile(rows []comparison) {
	heading()
	for i := range rows {
		rows[i].write()
	}
}

func heading() {
	fmt.Println("| attack | answer | time | processor | allocated | peak | steps | work | inventory | explained | stock allocator | answer | times slower |")
	fmt.Println("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---:|")
}

func (c *comparison) write() {
	more := func(a *attempt) string {
		if a.Outcome == stopped {
			return "> "
		}
		return ""
	}
	times := ""
	if r, counts := c.ratio(); counts {
		times = more(&c.kerf) + digits(r)
	}
	k, s := &c.kerf, &c.stock
	fmt.Printf("| %s | %s | %s%s | %s | %s | %s | %d | %.1f M | %s | %s | %s%s | %s | %s |\n", c.differing(), k.Outcome, more(k), rounded(k.Attempt.Wall), rounded(k.Attempt.CPU),
		mebibytes(k.Attempt.Allocated), mebibytes(k.Attempt.Peak), k.Steps, float64(k.Work)/1e6, rounded(k.Intake.Wall), rounded(k.Explained.Wall), more(s), rounded(s.Attempt.Wall), s.Outcome, times)
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
