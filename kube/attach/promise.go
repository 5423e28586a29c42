// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kerf.dev/kerf/api/fabric/v1alpha1"
	"kerf.dev/kerf/explain"
	"kerf.dev/kerf/fabric"
	"kerf.dev/kerf/inventory"
)

// maxDifference is the longest difference that the status of a Fabric keeps.
const maxDifference = 512

// withhold has the Fabric's status say that a device is not offered for its model.
func (c *carrier) withhold(ctx context.Context, w *fabric.Withheld) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		f := &v1alpha1.Fabric{}
		if err := c.live.Get(ctx, client.ObjectKeyFromObject(c.fabric), f); err != nil {
			return err
		}
		if f.UID != c.fabric.UID {
			return fmt.Errorf("fabric %s was deleted, and made anew", f.Name)
		}
		changed, err := withholdIn(&f.Status, c.fabric.Generation, w)
		if err != nil || !changed {
			return err
		}
		return c.client.Status().Update(ctx, f)
	})
}

// withholdIn tells whether there was something to change.
func withholdIn(s *v1alpha1.FabricStatus, generation int64, w *fabric.Withheld) (bool, error) {
	forgetModels(s, generation)
	at := slices.IndexFunc(s.Models, func(m v1alpha1.ModelStatus) bool { return m.Name == w.Model })
	if at < 0 {
		at, s.Models = len(s.Models), append(s.Models, v1alpha1.ModelStatus{Name: w.Model})
	}
	m := &s.Models[at]
	switch newer := withheldIn(m); {
	case newer > generation:
		return false, errors.New("the Fabric has changed meanwhile")
	case len(m.Withheld) >= fabric.MaxWithheld,
		slices.ContainsFunc(m.Withheld, func(d v1alpha1.WithheldDevice) bool { return d.Device == string(w.Device) }):
		return false, nil
	}
	m.Withheld = append(m.Withheld, v1alpha1.WithheldDevice{Device: string(w.Device), Difference: cut(w.Difference, maxDifference)})
	apimeta.SetStatusCondition(&m.Conditions, metav1.Condition{
		Type: v1alpha1.ModelAsPromised, Status: metav1.ConditionFalse, Reason: string(fabric.ReasonUnlike),
		Message: shortened(notPromised(m)), ObservedGeneration: generation,
	})
	return true, nil
}

// notPromised says what is wrong with a model, and what to do.
func notPromised(m *v1alpha1.ModelStatus) string {
	last := &m.Withheld[len(m.Withheld)-1]
	what := "1 device is"
	if n := len(m.Withheld); n >= fabric.MaxWithheld {
		what = "all devices are"
	} else if n > 1 {
		what = fmt.Sprintf("%d devices are", n)
	}
	return fmt.Sprintf("%s not offered any more; %s %s; have spec.models say what the driver publishes",
		what, last.Device, last.Difference)
}

// withheldIn is the generation of the spec in which the devices of a model are withheld, 0
// where none are.
func withheldIn(m *v1alpha1.ModelStatus) int64 {
	if c := unlike(m); c != nil {
		return c.ObservedGeneration
	}
	return 0
}

// unlike is the condition that says what is wrong with a model, nil if nothing is.
func unlike(m *v1alpha1.ModelStatus) *metav1.Condition {
	if c := apimeta.FindStatusCondition(m.Conditions, v1alpha1.ModelAsPromised); c != nil && c.Status == metav1.ConditionFalse {
		return c
	}
	return nil
}

// forgetModels takes away what was found out about models under an older spec.
func forgetModels(s *v1alpha1.FabricStatus, generation int64) {
	s.Models = slices.DeleteFunc(s.Models, func(m v1alpha1.ModelStatus) bool { return withheldIn(&m) < generation })
}

// withheldBy are the devices that a Fabric's status says are withheld, as its spec is in a
// generation.
func withheldBy(f *v1alpha1.Fabric, generation int64) []fabric.Withheld {
	var all []fabric.Withheld
	for i := range f.Status.Models {
		m := &f.Status.Models[i]
		if withheldIn(m) != generation {
			continue
		}
		for _, d := range m.Withheld {
			all = append(all, fabric.Withheld{Model: m.Name, Device: fabric.DeviceRef(d.Device), Difference: d.Difference})
		}
	}
	return all
}

// own takes in what the loop's Fabric says of its models.
func (l *loop) own(o *v1alpha1.Fabric) {
	if o.UID != l.fabric.UID {
		return
	}
	for _, w := range withheldBy(o, l.fabric.Generation) {
		l.stale = l.planner.ObserveWithheld(w.Model, w.Device) || l.stale
	}
}

// unpromised says which models are not what arrives, for the Fabric's condition Ready.
func unpromised(f *v1alpha1.Fabric) string {
	var all []string
	for i := range f.Status.Models {
		if c := unlike(&f.Status.Models[i]); c != nil {
			all = append(all, "model "+f.Status.Models[i].Name+": "+c.Message)
		}
	}
	return strings.Join(all, "; ")
}

// checkAmounts refuses capacity that no slice is to have. Fabrics that were made before
// their schema did so are decoded all the same.
func checkAmounts(f *v1alpha1.Fabric) error {
	for i := range f.Spec.Models {
		m := &f.Spec.Models[i]
		for _, name := range slices.Sorted(maps.Keys(m.Capacity)) {
			q, err := inventory.ParseQuantity(string(m.Capacity[name]))
			if err == nil && !inventory.Countable(&q) {
				err = errors.New("is " + inventory.Uncounted)
			}
			if err != nil {
				return fmt.Errorf("spec.models[%d].capacity[%s] (model %s): %w", i, name, m.Name, err)
			}
		}
	}
	return nil
}

// amountOf is a capacity that checkAmounts has let through.
func amountOf(a v1alpha1.Amount) resource.Quantity {
	q, err := inventory.ParseQuantity(string(a))
	if err != nil {
		return resource.Quantity{}
	}
	return q
}

// byFullName has values by the full names of what they are of. Where one is there under
// both names, the full one counts.
func byFullName[N ~string, V, W any](driver string, values map[N]V, as func(V) W) map[string]W {
	all := make(map[string]W, len(values))
	for name, value := range values {
		full := string(inventory.FullName(driver, resourceapi.QualifiedName(name)))
		if _, twice := values[N(full)]; twice && full != string(name) {
			continue
		}
		all[full] = as(value)
	}
	return all
}

// ambiguous are texts that values of other types have, too.
var ambiguous = regexp.MustCompile(`^(true$|false$|versions? |["[])`)

// worded is a value as text that no value of another type, and no other value, has.
func worded(a resourceapi.DeviceAttribute) string {
	switch {
	case a.StringValue != nil && (strings.Trim(*a.StringValue, "-0123456789") == "" || ambiguous.MatchString(*a.StringValue)):
		return strconv.Quote(*a.StringValue)
	case a.VersionValue != nil:
		return "version " + text(a)
	case a.IntValue != nil, a.BoolValue != nil, a.StringValue != nil:
		return text(a)
	case a.StringValues != nil:
		return fmt.Sprintf("%q", a.StringValues)
	case a.VersionValues != nil:
		return fmt.Sprintf("versions %v", a.VersionValues)
	case a.IntValues != nil:
		return fmt.Sprint(a.IntValues)
	default:
		return fmt.Sprint(a.BoolValues)
	}
}

// flawOf says why nobody can be allocated a device, empty where there is no reason: it
// takes more of a counter than there is.
func flawOf(pool *inventory.Pool, d *inventory.Device) string {
	for _, draw := range d.Draws {
		c := &pool.Counters[draw.Counter]
		if draw.Amount.Cmp(c.Value) > 0 {
			return fmt.Sprintf("it consumes %s of counter %s of counter set %s, which has %s",
				explain.Amount(draw.Amount), c.Name, pool.Sets[c.Set].Name, explain.Amount(c.Value))
		}
	}
	return ""
}

// culprits are the devices that make a pool invalid by what they take, with what is wrong
// with them. Nothing of the pool can be had while they are there.
func culprits(pool *inventory.Pool) map[string]string {
	found := map[string]string{}
	for _, problem := range pool.Problems {
		if problem.Kind != inventory.MissingCounterSet && problem.Kind != inventory.MissingCounter {
			// Which device it is because of, if any, nobody can say.
			return nil
		}
		found[problem.Device] = cmp.Or(found[problem.Device], explain.Problem(pool, problem))
	}
	return found
}
