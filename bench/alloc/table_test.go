// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"kerf.dev/kerf/kube/dropin"
)

var (
	table  = flag.Bool("table", false, "print the table of docs/performance.md")
	rounds = flag.Int("rounds", 101, "measurements per family and allocator for the table")
	limit  = flag.Duration("limit", 2*time.Second, "time after which the stock allocator is stopped")
	only   = flag.String("family", "", "measure this family only")
	stored = flag.Bool("stored", true, "give slices a resourceVersion, as objects from an informer have")
)

// features are those of Kubernetes 1.37 with its default feature gates, so that
// the stock allocator is the variant that is used by default.
var features = structured.Features{
	AdminAccess:             true,
	ConsumableCapacity:      true,
	DeviceBindingAndStatus:  true,
	DeviceTaints:            true,
	FractionalCapacityRange: true,
	PartitionableDevices:    true,
	PrioritizedList:         true,
}

// constructor is that of an allocator.
type constructor func(context.Context, structured.Features, structured.AllocatedState, structured.DeviceClassLister,
	[]*resourceapi.ResourceSlice, *cel.Cache) (structured.Allocator, error)

// contestant is an allocator with what it keeps from one pod to the next.
type contestant struct {
	construct constructor
	cache     *cel.Cache
	// allocator is that of a family whose allocator is reused.
	allocator structured.Allocator
}

func contestants() (stock, kerf *contestant) {
	of := cel.Features{EnableConsumableCapacity: true}
	return &contestant{construct: structured.NewAllocator, cache: cel.NewCache(100, of)},
		&contestant{construct: dropin.NewAllocator, cache: cel.NewCache(100, of)}
}

// run does the work of a family once and returns the number of nodes that fit.
func (c *contestant) run(ctx context.Context, f *family) (int, error) {
	allocator := c.allocator
	if allocator == nil {
		var err error
		if allocator, err = c.construct(ctx, features, f.state, classes, f.slices, c.cache); err != nil {
			return 0, err
		}
		if f.reused {
			c.allocator = allocator
		}
	}
	fit := 0
	for _, node := range f.nodes {
		results, err := allocator.Allocate(ctx, node, f.claims)
		if err != nil {
			return 0, err
		}
		if results != nil {
			fit++
		}
	}
	return fit, nil
}

// check runs a family once, compares the outcome with what is known about it, and
// reports whether it took longer than that.
func (c *contestant) check(t testing.TB, f *family, limit time.Duration) (slow bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	fit, err := c.run(ctx, f)
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	want := 0
	if f.possible {
		want = len(f.nodes)
	}
	if err != nil || fit != want {
		t.Fatalf("%s: fits on %d nodes, want %d: %v", f.name, fit, want, err)
	}
	return false
}

// measure returns the mean time of so many runs.
func (c *contestant) measure(t testing.TB, f *family, runs int) time.Duration {
	t.Helper()
	start := time.Now()
	for range runs {
		if _, err := c.run(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	return time.Since(start) / time.Duration(runs)
}

// generous is a limit for what must come to an end.
const generous = time.Minute

// TestTable checks that both allocators agree about every family, and on demand
// prints how long they take. What is impossible is only given to kerf unless it
// is measured: the stock allocator may take forever.
func TestTable(t *testing.T) {
	var rows []row
	for _, f := range families() {
		if *only != "" && f.name != *only {
			continue
		}
		stock, kerf := contestants()
		if kerf.check(t, &f, generous) {
			t.Fatalf("%s: kerf does not come to an end", f.name)
		}
		switch {
		case *table:
			rows = append(rows, compare(t, &f, stock, kerf))
		case f.possible:
			stock.check(t, &f, *limit)
		}
	}
	if *table {
		write(rows)
	}
}

// row is a family with the medians of both allocators.
type row struct {
	*family
	stock, kerf time.Duration
	// slow: the stock allocator was stopped at the limit.
	slow bool
}

func (r *row) ratio() float64 { return float64(r.stock) / float64(r.kerf) }

// enough is how long a measurement takes at least. Short ones, of both allocators
// in turn, make the medians robust against whatever else the machine does.
const enough = 100 * time.Microsecond

func compare(t *testing.T, f *family, stock, kerf *contestant) row {
	r := row{family: f, slow: stock.check(t, f, *limit)}
	runs := func(c *contestant) int { return max(1, int(enough/max(1, c.measure(t, f, 1)))) }
	stockRuns, kerfRuns := 1, runs(kerf)
	if !r.slow {
		stockRuns = runs(stock)
	}
	var stocks, kerfs []time.Duration
	for n, began := 0, time.Now(); n < *rounds && (n < 5 || time.Since(began) < generous/4); n++ {
		if !r.slow {
			stocks = append(stocks, stock.measure(t, f, stockRuns))
		}
		kerfs = append(kerfs, kerf.measure(t, f, kerfRuns))
	}
	r.stock, r.kerf = *limit, median(kerfs)
	if !r.slow {
		r.stock = median(stocks)
	}
	return r
}

func median(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

func write(rows []row) {
	fmt.Println("| problem | times faster | kerf | stock allocator | fits |\n|---|---:|---:|---:|---|")
	sum := 0.0
	for i := range rows {
		r := &rows[i]
		fits, more := "no", ""
		if r.possible {
			fits = "yes"
		}
		if r.slow {
			more = "> "
		}
		sum += math.Log(r.ratio())
		fmt.Printf("| %s | %s%s | %s | %s%s | %s |\n", r.name, more, digits(r.ratio()), rounded(r.kerf), more, rounded(r.stock), fits)
	}
	fmt.Printf("\nGeometric mean: %s times faster.\n", digits(math.Exp(sum/float64(len(rows)))))
}

func digits(ratio float64) string {
	if ratio < 10 {
		return fmt.Sprintf("%.1f", ratio)
	}
	return fmt.Sprintf("%.0f", ratio)
}

func rounded(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.0f µs", float64(d)/float64(time.Microsecond))
	case d < time.Second:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// BenchmarkAllocate is the same work; the stock allocator is left out where it is
// stopped at the limit.
func BenchmarkAllocate(b *testing.B) {
	for _, f := range families() {
		stock, kerf := contestants()
		for name, c := range map[string]*contestant{"stock": stock, "kerf": kerf} {
			b.Run(f.name+"/"+name, func(b *testing.B) {
				if c.check(b, &f, *limit) {
					b.ReportMetric(limit.Seconds(), "s-limit")
					return
				}
				b.ReportAllocs()
				for b.Loop() {
					c.measure(b, &f, 1)
				}
			})
		}
	}
}
