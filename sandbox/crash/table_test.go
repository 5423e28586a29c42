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

Written by ` + "`go test ./sandbox/crash -run TestMatrix -update`" + ` from what happened in a sandbox: etcd, API server, controllers,
kerf-scheduler, kerf-controller, a Redfish service and a driver, with a device, a claim and a pod for each line. The
write that would have led on was kept back, the part at the head of the column was killed or cut off from the API
server for a second, the others went on, and the part was started again. What it was about to write itself never came.

* *bound*: the pod runs with the device that was attached for its claim, the first and only one.
* *bound to another device*: the first could not be attached, for a reason that an event of the claim tells.
* *bound in the next attempt*: the scheduler, which had lost the connection and not its memory, gave the claim's device
  up. The next attempt takes it again, or another one where it is on its way back to the shelf already.
* *free*: the pod was deleted, and the device is detached and offered again.

At no time do two claims have one device, or is there more than one device at a node. In the end of every column nothing
is attached or reserved for nobody, no guard is left, and all free devices are offered, and no others.
[fabric/STATES.md](../fabric/STATES.md) has the phases.

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
