package nosql

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
)

// sortRun is the state of a runner whose items come in the order of the first key of
// ORDER BY: it sorts the items that are equal in it, one run after the other, and
// passes them on.
type sortRun struct {
	inOrder bool
	key     bson.Value
	begun   bool
	kept    int // what the memory held before the run
}

// InOrder says that the items are given in the order of the first key of ORDER BY, and
// those with equal keys in the order of the feed or, if the key is descending, in
// its reverse. REQUIRES: the query orders, has no groups, and its Shape is not Staged.
func (run *Run) InOrder() {
	s := run.chain[0].s
	invariant.Check(len(s.orderBy) > 0 && !s.groups, "nosql: InOrder is of a query with an order, without groups")
	run.chain[0].inOrder = true
}

// addInOrder takes the row whose aliases are set; made is what was made before it.
func (r *runner) addInOrder(made int) (bool, error) {
	first, err := r.s.orderBy[0].expr.eval(r.env)
	if err != nil {
		return false, err
	}
	own := r.env.made - made
	if !r.begun || order(r.key, first) != 0 {
		if more, err := r.endSortRun(); err != nil || !more {
			return false, err
		}
		r.key, r.begun, r.kept = first.Clone(), true, r.memory
	}
	made = r.env.made - own
	if !r.sortedAlready() {
		err := r.sort()
		r.env.made = made
		return true, err
	}
	v, err := r.s.row(r.env)
	if err != nil {
		return false, err
	}
	at := r.row
	at.Keys = []bson.Value{r.key}
	return r.handOn(v, at, made)
}

// sortedAlready reports whether the items come in the very order of the rows.
func (r *runner) sortedAlready() bool {
	return len(r.s.orderBy) == 1 && !r.s.orderBy[0].descending
}

// endSortRun passes on the rows of the run that ends; false says that no more is
// needed.
func (r *runner) endSortRun() (bool, error) {
	if len(r.sorted) == 0 {
		return true, nil
	}
	if r.s.orderBy[0].descending {
		slices.Reverse(r.sorted)
	}
	r.sortRows()
	rows := r.sorted
	r.env.kept -= r.memory - r.kept
	r.sorted, r.memory = r.sorted[:0], r.kept
	for _, row := range rows {
		if more, err := r.output(row.row, row.RowPlace); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}
