package exec

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// tally does a write and counts the index entries that it took.
func (w *Written) tally(u *catalog.Unit, write func() error) error {
	inserted, deleted := u.KeysInserted(), u.KeysDeleted()
	err := write()
	w.KeysInserted += u.KeysInserted() - inserted
	w.KeysDeleted += u.KeysDeleted() - deleted
	return err
}

// ownKeys is how many index entries a record is by itself: that of _id, where the
// records are in its order and no option of the collection says so.
func ownKeys(c *catalog.Collection) int64 {
	if c.ClusteredByID() && c.Settings.Clustered == nil {
		return 1
	}
	return 0
}

// ExecStats is the tree of stages with their counters, as the profiler shows it.
func (w *Written) ExecStats() bson.Doc {
	kind, changed := "UPDATE", w.Modified
	if w.deletes {
		kind, changed = "DELETE", w.Deleted
	}
	if hack, ok := w.node.(*plan.IDHack); ok && w.Upserted.IsMissing() {
		n := &plan.Express{ID: hack.ID, Write: "EXPRESS_" + kind}
		return plan.Explain(n, countersOf(&eof{stats: Stats{Node: n, Works: 1, KeysExamined: w.Keys, DocsExamined: w.Docs, EOF: true}}), plan.MaxExplain)
	}
	s := &wouldWrite{kind: kind, upserts: !w.Upserted.IsMissing(), matched: w.Matched + w.Deleted, changed: changed}
	s.input = w.stage
	if s.input == nil {
		s.input = &eof{stats: Stats{Node: w.node, Works: 1, Advanced: w.Docs, KeysExamined: w.Keys, DocsExamined: w.Docs, EOF: true}}
	}
	n := &plan.Write{Input: s.input.Stats().Node, Kind: kind}
	s.stats = Stats{Node: n, Works: s.input.Stats().Works + 1, NeedTime: s.input.Stats().Works, EOF: true}
	return plan.Explain(n, countersOf(s), plan.MaxExplain)
}
