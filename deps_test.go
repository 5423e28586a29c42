// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kerf holds the import law: what each part of the module may import, as a test.
//
// The nouns at the top level (alloc, selector, inventory, ...) decide and are pure: values in, values out.
// The rim (kube/, sandbox/, cmd/) talks to Kubernetes, sockets and disks. The law keeps the two apart, so that
// the nouns can be tested in milliseconds and built into other programs. Test files are exempt.
package kerf

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "kerf.dev/kerf"

// pureNouns are the packages, with all below them, that decide without a client, a clock, a goroutine or a
// logger. A folder that does not exist (yet) breaks nothing.
var pureNouns = []string{"alloc", "selector", "inventory", "claim", "cluster", "explain", "show", "fabric", "compound", "augment", "scenario", "simulate", "lint", "dump", "document"}

// rim lists the folders below a noun that do I/O on its behalf and are therefore not pure.
var rim = []string{"fabric/redfish"}

// law is one paragraph of the import law.
type law struct {
	name    string
	why     string // the reason for the ban
	instead string // the permitted way
	// offences returns a line per import that breaks the law, in a stable order.
	offences func(graph) []string
}

var laws = []law{
	{
		name:    "alloc-imports",
		why:     "the allocator is a function of its arguments: same input, same answer, in any program that embeds it",
		instead: "have the caller pass the value in through inventory, or move the code to the package that calls alloc",
		offences: importsOnly("alloc",
			"gopkg.in/inf.v0", // the exact decimals that resource.Quantity hands out
			"k8s.io/api/core/v1",
			"k8s.io/api/resource/v1",
			"k8s.io/apimachinery/pkg/api/resource",
			"k8s.io/apimachinery/pkg/types",
			module+"/alloc",
			module+"/inventory",
		),
	},
	{
		name:    "nouns-without-world",
		why:     "a noun that reads a clock, a file, a socket or a random number, or starts work of its own, cannot be replayed from a dump",
		instead: "take the value as an argument and do the I/O in the noun's twin below kube/, in sandbox/ or in cmd/",
		offences: nounsAvoid([]string{"time", "os", "net", "log", "math/rand", "context", "sync"}, []exception{
			{"selector", "context", "the CEL program is evaluated with a context, which carries its cost limit"},
			{"fabric", "context", "the interface of a fabric's manager, which its twin calls, is declared beside what decides"},
			{"fabric", "time", "deadlines are values of the API; the time is an argument, and a test forbids the clock"},
		}),
	},
	{
		name:    "nouns-without-clients",
		why:     "pure nouns link into any tool, and a client below them brings goroutines, clocks and the network with it",
		instead: "accept API types (k8s.io/api) as values and keep the client in the noun's twin below kube/",
		offences: nounsNeverReach(
			[]string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime", "k8s.io/apiserver", "google.golang.org/grpc", "k8s.io/kubernetes"},
			[]exception{{"selector", "k8s.io/apiserver", "the CEL environment of DRA selectors is declared in k8s.io/apiserver/pkg/cel"}},
		),
	},
	{
		name:     "explain-below-simulate",
		why:      "the words for a refusal serve the scheduler, which places pods itself and must not link a second placer",
		instead:  "word what simulate finds in show, and give explain the values that a text needs",
		offences: neverReach([]string{"explain"}, module+"/simulate", module+"/show", module+"/dump"),
	},
	{
		name:     "one-placer-in-the-scheduler",
		why:      "two placers in one program would answer one question twice, and a dump is a file format",
		instead:  "put what both need into claim, cluster, inventory or alloc",
		offences: neverReach([]string{"kube/scheduler"}, module+"/simulate", module+"/show", module+"/dump"),
	},
	{
		name:     "a-ledger-remembers",
		why:      "what is remembered is asked by every part of the plugin, from many goroutines: a ledger that decides, or works for one of them, ties them all together",
		instead:  "have the room that decides ask the ledger, and tell it what to remember",
		offences: neverReach([]string{"kube/scheduler/ledger"}, module+"/kube/scheduler/special", module+"/kube/scheduler/handover", module+"/kube/scheduler/background"),
	},
	{
		name:     "cel-in-selector",
		why:      "CEL is the one heavy dependency of the core, and one package must answer for its cost limits and its errors",
		instead:  "compile and match through kerf.dev/kerf/selector",
		offences: importedOnlyBy([]string{"github.com/google/cel-go", "k8s.io/dynamic-resource-allocation/cel"}, "selector"),
	},
	{
		name:    "kubernetes-at-the-rim",
		why:     "k8s.io/kubernetes is not a library: it gives no promise of compatibility and takes minutes to compile",
		instead: "use the staging modules (k8s.io/api, client-go, kube-scheduler), or put the code where the scheduler or the control plane is embedded",
		offences: importedOnlyBy([]string{"k8s.io/kubernetes"},
			"kube/scheduler",
			"kube/rules", // Kubernetes' own defaults and refusals have no staging module; command lines ask for them without a server.
			"sandbox", "bench", "cmd/kerf-scheduler"),
	},
	{
		name:     "sandbox-on-top",
		why:      "a sandbox is a whole control plane: what runs in a cluster, or reads its files, must not link one",
		instead:  "move what both need to a room below kube/, and have the sandbox import it",
		offences: neverReach([]string{"kube"}, module+"/sandbox"),
	},
	{
		name:     "kerf-without-service",
		why:      "kerf reads files with shelves and talks to an API server alone: a Redfish service in it is dead weight that listens",
		instead:  "read shelves with fabric/redfish/description, and start the service in the sandbox",
		offences: neverReach([]string{"cmd/kerf"}, module+"/fabric/redfish/service", module+"/sandbox"),
	},
}

func TestImportLaw(t *testing.T) {
	g := loadGraph(t)
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) {
			for _, offence := range l.offences(g) {
				t.Errorf("%s\n  why:     %s\n  instead: %s", offence, l.why, l.instead)
			}
		})
	}
}

// TestNounsStartNothing: who calls a noun decides what runs at once.
func TestNounsStartNothing(t *testing.T) {
	for _, folder := range loadGraph(t).folders(isPureNoun) {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if g, ok := n.(*ast.GoStmt); ok {
					t.Errorf("%s starts a goroutine: leave that to the noun's twin", fset.Position(g.Pos()))
				}
				return true
			})
		}
	}
}

// graph maps an import path to the package of that path.
type graph map[string]node

type node struct {
	standard bool
	imports  []string
}

// loadGraph asks the go command for every package of the module and all that they import, without test files.
func loadGraph(t *testing.T) graph {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Standard,Imports", "./...")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	g := graph{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Standard   bool
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return g
		} else if err != nil {
			t.Fatalf("go list: decode output: %v", err)
		}
		g[p.ImportPath] = node{standard: p.Standard, imports: p.Imports}
	}
}

// exception permits the imports below one path to the packages below one folder.
type exception struct {
	folder string
	path   string
	why    string
}

func permitted(exceptions []exception, folder, path string) bool {
	return slices.ContainsFunc(exceptions, func(e exception) bool {
		return below(folder, e.folder) && below(path, e.path)
	})
}

// below tells whether an import path is the given path or inside of it.
func below(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

func belowAny(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return below(path, root) })
}

// folders returns the folders of the module's own packages that satisfy keep, sorted.
func (g graph) folders(keep func(folder string) bool) []string {
	var found []string
	for path := range maps.Keys(g) {
		if folder, ok := strings.CutPrefix(path, module+"/"); ok && keep(folder) {
			found = append(found, folder)
		}
	}
	slices.Sort(found)
	return found
}

func isPureNoun(folder string) bool {
	return belowAny(folder, pureNouns) && !belowAny(folder, rim)
}

// importsOnly limits the direct imports of the packages below a folder to the allowed paths and to the standard
// library. What the standard library may not contribute is the matter of nounsAvoid.
func importsOnly(folder string, allowed ...string) func(graph) []string {
	return func(g graph) []string {
		var offences []string
		for _, f := range g.folders(func(f string) bool { return below(f, folder) }) {
			for _, imported := range g[module+"/"+f].imports {
				if !g[imported].standard && !slices.Contains(allowed, imported) {
					offences = append(offences, fmt.Sprintf("%s imports %s", f, imported))
				}
			}
		}
		return offences
	}
}

// nounsAvoid bans direct imports from pure nouns.
func nounsAvoid(banned []string, exceptions []exception) func(graph) []string {
	return func(g graph) []string {
		var offences []string
		for _, f := range g.folders(isPureNoun) {
			for _, imported := range g[module+"/"+f].imports {
				if belowAny(imported, banned) && !permitted(exceptions, f, imported) {
					offences = append(offences, fmt.Sprintf("%s imports %s", f, imported))
				}
			}
		}
		return offences
	}
}

// nounsNeverReach bans packages from what pure nouns import, directly or through others, and reports the shortest
// chain to each banned path. What an excepted package reaches by right counts for it, not for those who use it.
func nounsNeverReach(banned []string, exceptions []exception) func(graph) []string {
	return func(g graph) []string {
		var offences []string
		for _, f := range g.folders(isPureNoun) {
			for _, ban := range banned {
				if permitted(exceptions, f, ban) {
					continue
				}
				if chain := g.chain(module+"/"+f, ban, exceptions); chain != nil {
					offences = append(offences, strings.Join(chain, " -> "))
				}
			}
		}
		return offences
	}
}

// neverReach bans packages from what the packages below the given folders import, directly or through others.
func neverReach(folders []string, banned ...string) func(graph) []string {
	return func(g graph) []string {
		var offences []string
		for _, f := range g.folders(func(f string) bool { return belowAny(f, folders) }) {
			for _, ban := range banned {
				if chain := g.chain(module+"/"+f, ban, nil); chain != nil {
					offences = append(offences, strings.Join(chain, " -> "))
				}
			}
		}
		return offences
	}
}

// chain finds the shortest chain of imports from a package to one below ban, or nil. It does not follow packages
// of the module that are permitted to reach ban.
func (g graph) chain(from, ban string, exceptions []exception) []string {
	previous := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		path := queue[0]
		if below(path, ban) {
			var chain []string
			for ; path != ""; path = previous[path] {
				chain = append(chain, strings.TrimPrefix(path, module+"/"))
			}
			slices.Reverse(chain)
			return chain
		}
		if folder, ok := strings.CutPrefix(path, module+"/"); ok && permitted(exceptions, folder, ban) {
			continue
		}
		for _, imported := range slices.Sorted(slices.Values(g[path].imports)) {
			if _, seen := previous[imported]; !seen {
				previous[imported] = path
				queue = append(queue, imported)
			}
		}
	}
	return nil
}

// importedOnlyBy confines direct imports of the given paths to the packages below the given folders.
func importedOnlyBy(paths []string, folders ...string) func(graph) []string {
	return func(g graph) []string {
		var offences []string
		for _, f := range g.folders(func(f string) bool { return !belowAny(f, folders) }) {
			for _, imported := range g[module+"/"+f].imports {
				if belowAny(imported, paths) {
					offences = append(offences, fmt.Sprintf("%s imports %s", f, imported))
				}
			}
		}
		return offences
	}
}

// TestImportLawCatches breaks each paragraph of the law in a made-up module and expects it to be noticed, and
// that the exceptions go no further than they say.
func TestImportLawCatches(t *testing.T) {
	const api = "k8s.io/api/resource/v1"
	caught := map[string]bool{}
	for _, tc := range []struct {
		name  string
		graph graph
		want  map[string][]string // law -> offences
	}{
		{
			name: "lawful",
			graph: fake{
				"alloc":              {"fmt", "slices", api, module + "/inventory"},
				"inventory":          {api, "io"},
				"selector":           {"context", "k8s.io/dynamic-resource-allocation/cel"},
				"scenario":           {module + "/selector"},
				"fabric":             {"context", "time"},
				"fabric/redfish":     {"net/http", "time"},
				"kube/scheduler":     {"k8s.io/kubernetes/pkg/scheduler", "time", module + "/alloc"},
				"kube/rules":         {"k8s.io/kubernetes/pkg/api/legacyscheme", module + "/kube/manifest"},
				"kube/manifest":      {module + "/fabric/redfish/description"},
				"sandbox":            {module + "/kube/rules", module + "/fabric/redfish/service"},
				"cmd/kerf":           {module + "/kube/manifest"},
				"cmd/kerf-sandbox":   {module + "/sandbox"},
				"cmd/kerf-scheduler": {"k8s.io/kubernetes/cmd/kube-scheduler/app"},
			}.graph(),
		},
		{
			name:  "alloc imports a module that is not on its list",
			graph: fake{"alloc": {"github.com/google/go-cmp/cmp", module + "/selector"}}.graph(),
			want:  map[string][]string{"alloc-imports": {"alloc imports github.com/google/go-cmp/cmp", "alloc imports kerf.dev/kerf/selector"}},
		},
		{
			name:  "a package below alloc counts as alloc",
			graph: fake{"alloc/search": {"math/rand/v2", "k8s.io/klog/v2"}}.graph(),
			want: map[string][]string{
				"alloc-imports":       {"alloc/search imports k8s.io/klog/v2"},
				"nouns-without-world": {"alloc/search imports math/rand/v2"},
			},
		},
		{
			name: "nouns read clocks, files, sockets and start goroutines",
			graph: fake{
				"explain":   {"log/slog"},
				"inventory": {"os", "net/http", "time"},
				"selector":  {"context", "sync"},
			}.graph(),
			want: map[string][]string{"nouns-without-world": {
				"explain imports log/slog", "inventory imports os", "inventory imports net/http", "inventory imports time",
				"selector imports sync",
			}},
		},
		{
			name: "a client behind two packages",
			graph: fake{
				"inventory":     {module + "/kube/informer"},
				"kube/informer": {"k8s.io/client-go/tools/cache"},
				"explain":       {"google.golang.org/grpc/status"},
				"scenario":      {"k8s.io/apiserver/pkg/cel"},
			}.graph(),
			want: map[string][]string{"nouns-without-clients": {
				"explain -> google.golang.org/grpc/status",
				"inventory -> kube/informer -> k8s.io/client-go/tools/cache",
				"scenario -> k8s.io/apiserver/pkg/cel",
			}},
		},
		{
			name: "explain and the scheduler reach a second placer",
			graph: fake{
				"explain":        {module + "/inventory"},
				"inventory":      {module + "/dump"},
				"kube/scheduler": {module + "/lint"},
				"lint":           {module + "/simulate"},
			}.graph(),
			want: map[string][]string{
				"explain-below-simulate":      {"explain -> inventory -> dump"},
				"one-placer-in-the-scheduler": {"kube/scheduler -> lint -> simulate"},
			},
		},
		{
			name: "the ledger works for a room",
			graph: fake{
				"kube/scheduler/ledger":   {module + "/kube/scheduler/podclaim"},
				"kube/scheduler/podclaim": {module + "/kube/scheduler/special"},
			}.graph(),
			want: map[string][]string{
				"a-ledger-remembers": {"kube/scheduler/ledger -> kube/scheduler/podclaim -> kube/scheduler/special"},
			},
		},
		{
			name:  "selector may reach the apiserver's CEL and no client",
			graph: fake{"selector": {"k8s.io/apiserver/pkg/cel/environment", "k8s.io/client-go/rest"}}.graph(),
			want:  map[string][]string{"nouns-without-clients": {"selector -> k8s.io/client-go/rest"}},
		},
		{
			name:  "CEL outside of selector",
			graph: fake{"kube/scheduler": {"k8s.io/dynamic-resource-allocation/cel"}, "web": {"github.com/google/cel-go/common"}}.graph(),
			want: map[string][]string{"cel-in-selector": {
				"kube/scheduler imports k8s.io/dynamic-resource-allocation/cel", "web imports github.com/google/cel-go/common",
			}},
		},
		{
			name:  "Kubernetes away from the rim",
			graph: fake{"kube/informer": {"k8s.io/kubernetes/pkg/features"}, "kube/schedulers": {"k8s.io/kubernetes"}}.graph(),
			want: map[string][]string{"kubernetes-at-the-rim": {
				"kube/informer imports k8s.io/kubernetes/pkg/features", "kube/schedulers imports k8s.io/kubernetes",
			}},
		},
		{
			name: "a command line links a control plane and a service that it does not run",
			graph: fake{
				"kube/manifest": {module + "/sandbox/shelf"},
				"sandbox/shelf": {module + "/fabric/redfish/service"},
				"cmd/kerf":      {module + "/kube/manifest"},
			}.graph(),
			want: map[string][]string{
				"sandbox-on-top": {"kube/manifest -> sandbox/shelf"},
				"kerf-without-service": {
					"cmd/kerf -> kube/manifest -> sandbox/shelf -> fabric/redfish/service", "cmd/kerf -> kube/manifest -> sandbox/shelf",
				},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := map[string][]string{}
			for _, l := range laws {
				if offences := l.offences(tc.graph); len(offences) > 0 {
					got[l.name], caught[l.name] = offences, true
				}
			}
			if tc.want == nil {
				tc.want = map[string][]string{}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("offences (-want +got):\n%s", diff)
			}
		})
	}
	for _, l := range laws {
		if !caught[l.name] {
			t.Errorf("no made-up module breaks %s", l.name)
		}
	}
}

// fake lists the imports of made-up packages of the module by folder.
type fake map[string][]string

// graph completes the made-up module with what it imports: paths without a dot in their first element are the
// standard library's, as the go command has it.
func (f fake) graph() graph {
	g := graph{}
	for folder, imports := range f {
		g[module+"/"+folder] = node{imports: imports}
		for _, imported := range imports {
			if _, known := g[imported]; !known && !below(imported, module) {
				first, _, _ := strings.Cut(imported, "/")
				g[imported] = node{standard: !strings.Contains(first, ".")}
			}
		}
	}
	return g
}
