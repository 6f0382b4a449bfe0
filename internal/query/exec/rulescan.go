package exec

import (
	"bytes"
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/schema"
)

// RuleScan reads the entries of a rule's index from the oldest on, over one state of
// the store. It must be closed.
type RuleScan struct {
	scan *indexScan
	done func()
}

// ScanRule opens a scan of the entries of a rule within ranges, over a fresh snapshot.
// Entries before after are left out: what RuleScan.Place of an earlier scan returned;
// nil leaves out none.
func (x *Executor) ScanRule(c *catalog.Collection, r *catalog.Rule, ranges []schema.Range, after []byte) *RuleScan {
	source, done := x.freshSource(c)
	ix := planIndex(r.Index)
	node := ruleNode(ix, ranges)
	node.Dedup = ix.IsMultikey()
	b := builder{source: source}
	scan := b.build(node).(*indexScan)
	scan.ranges.StartAt(after, scan.backward)
	return &RuleScan{scan, done}
}

// Work does one unit of work, and fills row when it advances.
func (s *RuleScan) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	return s.scan.Work(ctx, row)
}

// Place is the entry that the scan stands on, nil before the first.
func (s *RuleScan) Place() []byte {
	if s.scan.it == nil {
		return nil
	}
	return bytes.Clone(s.scan.it.Key())
}

// Stats are the counters of the scan.
func (s *RuleScan) Stats() *stage.Stats { return &s.scan.stats }

// Explain is the plan of a batched delete over the scan, as explain prints it: fetch
// counts documents that were read again under their locks, and write, in its Works,
// those that were deleted.
func (s *RuleScan) Explain(fetch, write *stage.Stats) bson.Doc {
	scan := countersOf(s.scan)
	root := &plan.Write{Input: &plan.Fetch{Input: s.scan.stats.Node}, Kind: "BATCHED_DELETE"}
	return plan.Explain(root, func(n plan.Node, b *bson.Builder, specific bool) {
		switch n.(type) {
		case *plan.Write:
			if specific {
				b.Int("nWouldDelete", write.Works)
				return
			}
			writeStats(write, b)
		case *plan.Fetch:
			if specific {
				b.Int("docsExamined", fetch.DocsExamined).Int32("alreadyHasObj", 0)
				return
			}
			writeStats(fetch, b)
		default:
			scan(n, b, specific)
		}
	}, plan.MaxExplain)
}

// Close releases the resources of the scan.
func (s *RuleScan) Close() error {
	defer s.done()
	return s.scan.Close()
}

// ruleNode plans a scan of ranges of an index, from the oldest entry on.
func ruleNode(ix *plan.Index, ranges []schema.Range) *plan.IndexScan {
	all := make(plan.Intervals, len(ranges))
	for i, r := range ranges {
		all[i] = plan.Interval{Lo: r.From, Hi: r.To, LoInc: true, HiInc: true}
	}
	return &plan.IndexScan{Index: ix, Bounds: []plan.Intervals{all}, Backward: ix.Parts[0].Descending}
}

// planIndex describes an index for a plan that does not come from the planner.
func planIndex(ix *catalog.Index) *plan.Index {
	return &plan.Index{Index: ix.Index, Multikey: ix.Multikey(), Handle: ix}
}

// RuleEntries counts and finds entries of rules' indexes, over one state of the store.
type RuleEntries struct {
	source *source
	seen   *dedup // or nil
}

// RuleEntries opens the entries of a collection's rules over a fresh snapshot. The
// caller calls done when it is through.
func (x *Executor) RuleEntries(c *catalog.Collection) (e *RuleEntries, done func()) {
	source, done := x.freshSource(c)
	return &RuleEntries{source: source}, done
}

// CountOnce makes Count count each document once, by the first of its entries.
func (e *RuleEntries) CountOnce() { e.seen = newDedup(e.source) }

// each calls f with the entries of a rule within ranges, the oldest of each range
// first, until it returns false.
func (e *RuleEntries) each(ctx context.Context, r *catalog.Rule, ranges []schema.Range, f func(*stage.Row) (bool, error)) (err error) {
	if len(ranges) == 0 {
		return nil
	}
	node := ruleNode(planIndex(r.Index), ranges)
	b := builder{source: e.source}
	scan := b.scan(node, node.Index, node.Bounds, false)
	scan.backward, scan.seen = node.Backward, e.seen
	defer func() {
		if cerr := scan.Close(); err == nil {
			err = cerr
		}
	}()
	var row stage.Row
	for works := 0; ; works++ {
		if works%stage.CtxEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		state, err := scan.Work(ctx, &row)
		if err != nil || state == stage.EOF {
			return err
		}
		if state != stage.Advanced {
			continue
		}
		if more, err := f(&row); err != nil || !more {
			return err
		}
	}
}

// Count is how many entries a rule has within ranges.
func (e *RuleEntries) Count(ctx context.Context, r *catalog.Rule, ranges []schema.Range) (n int64, err error) {
	err = e.each(ctx, r, ranges, func(*stage.Row) (bool, error) { n++; return true, nil })
	return n, err
}

// First is the earliest instant by a rule within ranges, or schema.Never.
func (e *RuleEntries) First(ctx context.Context, r *catalog.Rule, ranges []schema.Range) (int64, error) {
	earliest := int64(schema.Never)
	seen := e.seen
	e.seen = nil
	defer func() { e.seen = seen }()
	for i := range ranges {
		err := e.each(ctx, r, ranges[i:i+1], func(row *stage.Row) (bool, error) {
			due, err := r.DueOfKey(row.Key, row.Bits)
			earliest = min(earliest, due)
			return false, err
		})
		if err != nil {
			return earliest, err
		}
	}
	return earliest, nil
}
