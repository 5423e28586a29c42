// Copyright The kerf Authors.
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	resourceapi "k8s.io/api/resource/v1"
)

// column has the values of an attribute, published or derived in one way, on all
// units. All asks and constraints that see the attribute so share it.
type column struct {
	read bits
	// values are numbered by the attribute, see board.valueIDs.
	values [][]int32
	// errs are those of deriving it.
	errs map[int]error
}

// columnKey says which values a column has: expression is that of a derived
// attribute, empty for a published one.
type columnKey struct {
	attribute  resourceapi.FullyQualifiedName
	expression string
}

// column returns the values that the ask sees of the constraint's attribute.
func (b *board) column(a *ask, c int) *column {
	key := columnKey{attribute: b.problem.constraints[c].attribute}
	key.expression = a.derived[key.attribute]
	found := b.columns[key]
	if found == nil {
		b.meter.payBytes(len(b.units) * 24)
		found = &column{read: newBits(len(b.units)), values: make([][]int32, len(b.units))}
		if b.columns == nil {
			b.columns = map[columnKey]*column{}
		}
		b.columns[key] = found
		if key.expression != "" {
			b.meter.payCompilation(key.expression)
		}
	}
	return found
}

// readValues reads what the ask sees of a unit's attributes for each constraint.
// It reports whether the unit has them all.
func (b *board) readValues(f *field, i int) bool {
	b.meter.pay(2 * len(f.limits))
	for k, c := range f.limits {
		if f.values[k][i] == nil {
			if err := b.read(f.ask, c, i); err != nil {
				b.problem.reading.fail(b, f, i, fault{b.derivedError(f.ask, c, i, err), k})
			}
		}
		if f.values[k][i] == nil {
			return false
		}
	}
	return true
}

// read numbers the values of a unit. The error is that of deriving them.
func (b *board) read(a *ask, c int, i int) error {
	column := b.column(a, c)
	if column.read.has(i) {
		return column.errs[i]
	}
	values, err := b.attributeOf(a, c, i)
	if b.meter.halted() {
		return err
	}
	column.read.set(i)
	if err != nil {
		if column.errs == nil {
			column.errs = map[int]error{}
		}
		column.errs[i] = err
	}
	numbers := b.valueIDs[c]
	b.meter.pay(valueWork * (1 + len(values)))
	for _, v := range values {
		n, found := numbers[v]
		if !found {
			n = int32(len(numbers))
			numbers[v] = n
			b.noteLoner(c, v, n)
		}
		column.values[i] = append(column.values[i], n)
	}
	return err
}

// valueWork is for reading one value and giving it a number.
const valueWork = 20

// attributeOf returns the values that a constraint sees on a unit: the ask's
// derived attribute of that name, else the published one.
func (b *board) attributeOf(a *ask, c int, i int) ([]value, error) {
	name, u := b.problem.constraints[c].attribute, &b.units[i]
	attribute := published(u.dev, name)
	if expression, derived := a.derived[name]; derived {
		from := b.meter.turn(Selecting)
		derived, cost, err := b.problem.matcher.Derive(b.meter.stop, expression, u.dev)
		b.meter.payEvaluation(expression, u.dev, cost)
		b.meter.turn(from)
		if err != nil {
			return nil, err
		}
		attribute = derived
	}
	return b.problem.reading.values(attribute, i), nil
}

// loner is the number of a value of an attribute that is equal to none but itself.
type loner struct {
	attribute resourceapi.FullyQualifiedName
	number    int32
}

func (b *board) noteLoner(c int, v value, n int32) {
	if v.kind == incomparable {
		if b.loners == nil {
			b.loners = map[loner]bool{}
		}
		b.loners[loner{b.problem.constraints[c].attribute, n}] = true
	}
}

// isLoner reports whether the values that a constraint sees are but such a one: it is
// accepted of the first device and of no other.
func (b *board) isLoner(c int, values []int32) bool {
	return b.loners != nil && b.loners[loner{b.problem.constraints[c].attribute, values[0]}]
}

// derivedError says for whom an attribute could not be derived.
func (b *board) derivedError(a *ask, c, i int, err error) *DeviceError {
	return &DeviceError{RequestRef: a.ref, All: a.all, Device: b.units[i].dev.ID, Attribute: b.problem.constraints[c].attribute, Err: err}
}
