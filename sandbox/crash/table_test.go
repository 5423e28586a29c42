// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package crash

import (
	"cmp"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/fabric-crashes.md")

const document = "../../docs/fabric-crashes.md"

const preamble = `# What a crash does to a device of a fabric

A test kills each part of a cluster with a fabric, or cuts it off, at each point of the way that a device takes to a claim
and back. The table below says what came of it. ` + "`go test ./sandbox/crash -run TestMatrix -update`" + ` writes it.

The test runs etcd, the API server, controllers, kerf-scheduler, kerf-controller, a simulated Redfish service and a
simulated driver. Each line of the table has a device, a claim and a pod of its own. For each column, the test

1. brings every line to its point, and holds back the write that would lead on;
2. kills the part at the head of the column, or cuts it off from the API server for a second. The write that the part
   itself was waiting for is lost;
3. lets the other writes through;
4. starts the part again, or reconnects it, and waits until nothing moves.

What comes of a line is one of these:

* *bound*: the pod runs with the device that was attached first for its claim. No other one was attached.
* *bound to another device*: the first device could not be attached. An event of the claim says why.
* *bound in the next attempt*: the scheduler lost its connection, but not its memory, and gave the device up. Its next
  attempt took the device again, or another one if the first was on its way back to the shelf.
* *free*: the pod was deleted. The device is detached, and offered again.

At no time do two claims have the same device, or does a node have more than one. At the end of each column, no device is
attached or reserved that nobody uses, no guard is left, and exactly the free devices are offered.
[fabric/STATES.md](../fabric/STATES.md) explains the phases.

`

// table is the matrix as it came out.
type table struct {
	points []point
	cells  map[[2]string]string
}

func newTable(points []point) *table { return &table{points, map[[2]string]string{}} }

func (m *table) set(point, column, outcome string) { m.cells[[2]string{point, column}] = outcome }

// markdown is the matrix for people.
func (m *table) markdown() string {
	var b strings.Builder
	b.WriteString("| phase | when |")
	for _, c := range strikes {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(strikes)+2) + "\n")
	for _, p := range m.points {
		b.WriteString("| " + cmp.Or(string(p.phase), "none") + " | " + p.when + " |")
		for _, c := range strikes {
			b.WriteString(" " + m.cells[[2]string{p.name, c.title}] + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// check compares the document with what came out.
func (m *table) check(t *testing.T) {
	t.Helper()
	text := m.markdown()
	t.Logf("\n%s", text)
	if len(m.cells) < len(points())*len(strikes) {
		t.Logf("not everything was run, so %s is not compared", document)
		return
	}
	if *update {
		if err := os.WriteFile(document, []byte(preamble+text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != preamble+text {
		t.Errorf("%s is not what came out: run the test with -update", document)
	}
}
