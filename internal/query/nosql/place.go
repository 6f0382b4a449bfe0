package nosql

import (
	"cmp"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
)

// RowPlace is the position of a row in the result of a query without groups: its keys
// of ORDER BY, the number of its item, and its own number among the rows of that item.
type RowPlace struct {
	Keys   []bson.Value
	Number int64
	Index  int64
}

// progress is where a runner is, and where it began.
type progress struct {
	row    RowPlace // of the row at hand, its keys apart
	here   RowPlace // of the row that was handed out last
	behind *RowPlace
	given  int64
}

// nextRow counts a row of the item with a number.
func (p *progress) nextRow(number int64) {
	if p.row.Number != number {
		p.row = RowPlace{Number: number}
		return
	}
	p.row.Index++
}

// Number sets the number of the item that Add is given next. Rows with equal keys are
// in the order of these numbers. n is not 0.
func (run *Run) Number(n int64) { run.env.number = n }

// Behind makes the run deliver only the rows after a place. given is how many were
// delivered up to there, which OFFSET, LIMIT and TOP have counted already. REQUIRES:
// the query has no groups, and its Shape is not Staged.
func (run *Run) Behind(p RowPlace, given int64) {
	invariant.Check(!run.chain[0].s.groups, "nosql: Behind is of a query without groups")
	run.chain[0].behind, run.chain[0].given = &p, given
}

// Place returns the position of the row that emit was called with last.
func (run *Run) Place() RowPlace { return run.chain[0].here }

// compare compares the places of two rows.
func (r *runner) compare(a, b RowPlace) int {
	return cmp.Or(r.compareKeys(a.Keys, b.Keys), cmp.Compare(a.Number, b.Number), cmp.Compare(a.Index, b.Index))
}

// compareKeys compares keys of ORDER BY.
func (r *runner) compareKeys(a, b []bson.Value) int {
	for i, k := range r.s.orderBy {
		if c := order(a[i], b[i]); c != 0 {
			if k.descending {
				return -c
			}
			return c
		}
	}
	return 0
}
