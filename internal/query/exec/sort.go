package exec

import (
	"context"
	"errors"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec/stage"
	"github.com/mayflydb/mayfly/internal/query/extsort"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

// sorter orders its input.
type sorter struct {
	stats      stage.Stats
	input      stage.Stage
	keys       *sortkey.Generator
	rows       *extsort.Sorter
	loaded     bool
	buf        []byte
	fields     []string // of the document that it keeps; nil: all
	narrow     []byte   // the last document with only those
	reader     *metaReader
	source     *source
	visibility *visibility // of the batch that the rows were taken in
	carriesDue bool        // records carry when their documents are due
	tagged     bool        // and the rows' other metadata, if there may be any
	keyed      bool        // the index keys are read above
	// entries is the index whose entries it orders, of which the keys are kept instead
	// of documents; nil for documents. parked says that they are of a state before.
	entries *plan.Index
	parked  bool
}

func (b *builder) sorter(n *plan.Sort) *sorter {
	s := &sorter{stats: stage.Stats{Node: n}, input: b.build(n.Input), rows: extsort.New(n.Limit, b.spillDir), reader: b.meta, source: b.source, fields: b.fields, keyed: b.keyed, tagged: b.keyed || has(n.Input, knowsMeta)}
	if s.fields != nil {
		s.fields = b.source.withDueFields(s.fields)
	}
	if scan, ok := n.Input.(*plan.IndexScan); ok && n.Entries {
		s.entries = scan.Index
	}
	s.rows.Hold(b.source.hold())
	s.keys = sortkey.NewGenerator(n.Pattern, b.coll, b.meta.value)
	return s
}

// know restores the row's metadata besides its document.
func (s *sorter) know(row *stage.Row) error {
	s.reader.about(row)
	if !s.keyed || row.Key == nil {
		return nil
	}
	key, err := keyDocument(row)
	if err != nil {
		return err
	}
	m := stage.Meta{Key: key}
	if row.Meta != nil {
		m = *row.Meta
		m.Key = key
	}
	row.Meta = &m
	return nil
}

// add adds a row.
func (s *sorter) add(row *stage.Row) (err error) {
	if err := s.know(row); err != nil {
		return err
	}
	if s.buf, err = s.keys.Append(s.buf[:0], row.Doc); err != nil {
		return err
	}
	record := row.Record
	if s.entries != nil {
		return s.rows.Add(s.buf, record, row.Key)
	}
	if s.rows.Stats.Rows == 0 {
		s.visibility = s.source.visibility
		s.carriesDue = s.visibility != nil && s.source.rowsWait
	}
	if s.tagged {
		record = row.Meta.Tag(record)
	}
	if s.carriesDue {
		if row.Due == 0 { // not set since the trial ended
			row.Due = catalog.Due(s.source.visibility.rules, row.Doc)
		}
		record = withDue(record, row.Due)
	}
	return s.rows.Add(s.buf, record, s.needed(row.Doc))
}

func (s *sorter) Stats() *stage.Stats   { return &s.stats }
func (s *sorter) Inputs() []stage.Stage { return []stage.Stage{s.input} }
func (s *sorter) Close() error          { return errors.Join(s.input.Close(), s.rows.Close()) }

// save notes that the rows are of an earlier state.
func (s *sorter) save() error {
	s.parked = true
	return nil
}

// needed returns the fields of a document that are read after the sort.
func (s *sorter) needed(d bson.Doc) bson.Doc {
	if s.fields == nil {
		return d
	}
	s.narrow = new(bson.Builder).Reset(s.narrow[:0]).Only(d, s.fields).Finish()
	return s.narrow
}

// passes reports whether pass may replace Work: all rows are sorted, and none of them
// can have become hidden since.
func (s *sorter) passes() bool {
	return s.loaded && !s.carriesDue && s.source.visibility == s.visibility
}

// pass skips a row.
func (s *sorter) pass() (stage.State, error) {
	ok, err := s.rows.Pass()
	if err != nil || !ok {
		return s.stats.Count(stage.EOF), err
	}
	return s.stats.Count(stage.Advanced), nil
}

func (s *sorter) Work(ctx context.Context, row *stage.Row) (stage.State, error) {
	if s.loaded {
		r, ok, err := s.rows.Next()
		if err != nil || !ok {
			return s.stats.Count(stage.EOF), err
		}
		if s.entries != nil {
			*row = stage.Row{Record: r.Record, Key: r.Doc, Index: s.entries, Sort: r.Key, Parked: s.parked}
			return s.stats.Count(stage.Advanced), nil
		}
		*row = stage.Row{Record: r.Record, Doc: r.Doc, Sort: r.Key}
		if s.carriesDue {
			row.Record, row.Due = splitDue(r.Record)
		}
		if s.tagged {
			row.Record, row.Meta = stage.Untag(row.Record)
		}
		if !s.carriesDue && s.source.visibility != s.visibility && s.source.isRowExpiredLater(row) {
			return s.stats.Count(stage.NeedTime), nil
		}
		return s.stats.Count(stage.Advanced), nil
	}
	state, err := s.input.Work(ctx, row)
	if err != nil {
		return stage.EOF, err
	}
	switch state {
	case stage.Advanced:
		err = s.add(row)
	case stage.EOF:
		s.loaded = true
		err = s.rows.Sort()
	}
	if errors.Is(err, extsort.ErrMemory) {
		err = mongoerr.New(mongoerr.QueryExceededMemoryLimitNoDiskUseAllowed, "Sort exceeded memory limit of %d bytes, but did not opt in to external sorting.", extsort.MaxMemory)
	}
	return s.stats.Count(stage.NeedTime), err
}
