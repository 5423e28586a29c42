// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kerf.dev/kerf/alloc"
	"kerf.dev/kerf/cluster"
	"kerf.dev/kerf/inventory"
)

// Level says how bad a finding is.
type Level string

// The levels; see the package documentation.
const (
	Error   Level = "error"
	Warning Level = "warning"
)

// Finding is one mistake.
type Finding struct {
	Level Level  `json:"level"`
	Rule  string `json:"rule"`
	// Kind, Namespace and Name identify the object, Field is a path in it such
	// as spec.devices[0].name.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Field     string `json:"field"`
	// Problem says what is wrong, Fix what to do.
	Problem string `json:"problem"`
	Fix     string `json:"fix"`
}

// Object is "Kind name" or "Kind namespace/name".
func (f *Finding) Object() string {
	if f.Namespace != "" {
		return fmt.Sprintf("%s %s/%s", f.Kind, f.Namespace, f.Name)
	}
	return f.Kind + " " + f.Name
}

// Matcher evaluates the CEL expressions of classes and claims, as package
// selector does.
type Matcher interface {
	alloc.Matcher
	// CompileDerived reports whether the expression of a derived attribute is
	// valid.
	CompileDerived(expression string) error
}

// Check returns the findings, errors first, then by object and field. What an API server
// refuses is among them, unless there is more to say of the same field.
func Check(objects *cluster.Objects, matcher Matcher, refusals []Refusal) []Finding {
	c := newChecker(objects, matcher)
	c.refused = refusedObjects(refusals)
	c.checkObjects()
	c.checkPools()
	c.checkGenerations()
	c.checkHardware()
	c.checkParts()
	c.checkAttributes()
	c.checkSpellings()
	c.checkCompound()
	c.checkClasses()
	c.checkExtendedResources()
	c.checkPlugins()
	c.checkClaimClasses()
	c.checkAskedCapacity()
	c.checkAllocations()
	c.checkPods()
	c.checkNodeNames()
	c.checkTaintRules()
	c.checkBudget()
	c.checkRefused(refusals)
	return c.ordered()
}

// Misdirected returns the claims and templates with a constraint or configuration for
// a request that they do not have: to answer for such a claim would be to leave
// something out.
func Misdirected(objects *cluster.Objects) []Finding {
	c := &checker{cluster: cluster.New(objects)}
	for s := range c.claimSpecs {
		s.checkReferences()
	}
	return c.ordered()
}

// checkObjects reports what is wrong with objects by themselves.
func (c *checker) checkObjects() {
	c.checkSlices()
	c.checkClassSelectors()
	c.checkClaimSpecs()
}

func (c *checker) ordered() []Finding {
	slices.SortStableFunc(c.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Level, b.Level), cmp.Compare(a.Object(), b.Object()),
			cmp.Compare(a.Field, b.Field), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Problem, b.Problem))
	})
	// Nodes may have different parts of a pool, with some devices in all of them.
	return slices.Compact(c.findings)
}

// checker collects findings about one cluster.
type checker struct {
	cluster *cluster.Snapshot
	matcher Matcher
	refused map[string]bool // objects
	slices  map[string]*resourceapi.ResourceSlice
	pools   []*inventory.Pool
	cel     *budget
	// molecules are the devices that policies make, where they are not published yet.
	molecules []*inventory.Device
	findings  []Finding
}

func newChecker(objects *cluster.Objects, matcher Matcher) *checker {
	c := &checker{cluster: cluster.New(objects), matcher: matcher, slices: map[string]*resourceapi.ResourceSlice{}}
	inv := inventory.New()
	for _, slice := range c.cluster.ResourceSlices {
		if !identified(slice) {
			continue
		}
		c.slices[slice.Name] = slice
		inv.SetSlice(slice)
	}
	for pool := range inv.Snapshot().Pools {
		c.pools = append(c.pools, pool)
	}
	c.cel = newBudget(c.pools)
	return c
}

func (c *checker) add(f Finding) { c.findings = append(c.findings, f) }

// subject is an object that findings are about.
type subject struct {
	*checker
	of Finding
}

// about returns the subject for an object of that kind.
func (c *checker) about(kind string, object metav1.Object) subject {
	return subject{c, Finding{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}}
}

// report adds a finding about the subject.
func (s subject) report(level Level, rule, field, fix, problem string, args ...any) {
	f := s.of
	f.Level, f.Rule, f.Field, f.Problem, f.Fix = level, rule, field, fmt.Sprintf(problem, args...), fix
	s.add(f)
}

// slice adds a finding about a ResourceSlice.
func (c *checker) slice(level Level, rule, name, field, problem, fix string) {
	c.add(Finding{Level: level, Rule: rule, Kind: "ResourceSlice", Name: name, Field: field, Problem: problem, Fix: fix})
}

// devices calls yield for each device of the newest generation of each pool.
func (c *checker) devices(yield func(*inventory.Device) bool) {
	for _, pool := range c.pools {
		for _, d := range pool.Devices {
			if !yield(d) {
				return
			}
		}
	}
}

// devicePath is the path of a device in its slice.
func devicePath(slice *resourceapi.ResourceSlice, device string) string {
	i := slices.IndexFunc(slice.Spec.Devices, func(d resourceapi.Device) bool { return d.Name == device })
	return fmt.Sprintf("spec.devices[%d]", i)
}
