package exec

import (
	"encoding/binary"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/plan"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

// Meta is what the plan knows about a document besides its fields: what
// {$meta: name} reads. Immutable, and free of the store's bytes.
type Meta struct {
	// Distance and Point are those of a search by distance: how far the nearest
	// geometry of the document is, as clients see it, and that geometry.
	Distance float64
	Point    bson.Value
	// Score is that of a text search, where Scored.
	Score  float64
	Scored bool
	// Key is that of the index entry that led to the row, of a row that a sort
	// has held back from a reader of keys.
	Key bson.Doc
}

// knowsMeta says whether a node gives its rows a Meta.
func knowsMeta(n plan.Node) bool {
	switch n.(type) {
	case *plan.GeoNear, *plan.Distance, *plan.TextOr:
		return true
	}
	return false
}

// metaReader answers {$meta: name} about the row that is being evaluated.
type metaReader struct {
	row  *Row
	coll *catalog.Collection // whose records the rows are; nil for none
	keys *sortkey.Generator  // of the query's sort, once {$meta: "sortKey"} is read
}

func (r *metaReader) value(name string) bson.Value {
	if r == nil || r.row == nil {
		return bson.Value{}
	}
	if name == "indexKey" {
		d, err := r.row.keyDocument()
		if err != nil || d.IsEmpty() {
			return bson.Value{}
		}
		return bson.Document(d)
	}
	if name == "sortKey" {
		return r.sortKey()
	}
	if name == "recordId" {
		return r.recordID()
	}
	return r.row.Meta.Value(name)
}

// Value is what {$meta: name} reads, or Missing; m may be nil.
func (m *Meta) Value(name string) bson.Value {
	switch {
	case m == nil:
	case m.Scored:
		if name == "textScore" {
			return bson.Double(m.Score)
		}
	case name == "geoNearDistance":
		return bson.Double(m.Distance)
	case name == "geoNearPoint":
		return m.Point
	}
	return bson.Value{}
}

// sortKey is the array of the values that the row is ordered by.
func (r *metaReader) sortKey() bson.Value {
	if r.keys == nil {
		return bson.Value{}
	}
	v, err := r.keys.Values(r.row.Doc)
	if err != nil { // the sort itself has refused such documents
		return bson.Value{}
	}
	return v
}

// readsSortKey prepares a query of whose documents {$meta: "sortKey"} is read.
func (r *running) readsSortKey() {
	q := r.query
	if q.Sort.IsEmpty() || !q.KeyRead && (q.Projection == nil || !slices.Contains(q.Projection.Meta(), "sortKey")) {
		return
	}
	r.meta.keys = sortkey.NewGenerator(q.Sort, nil, r.meta.value)
	if q.Paths == nil {
		return
	}
	q.Paths = slices.Clone(q.Paths)
	for _, p := range q.Sort.Parts {
		if p.Meta == "" {
			q.Paths = append(q.Paths, p.Path)
		}
	}
}

// recordID is the row's, Missing where it has none.
func (r *metaReader) recordID() bson.Value {
	if r.coll == nil || r.row.Record == nil {
		return bson.Value{}
	}
	return bson.Int64(recordID(r.coll, r.row.Record))
}

// about makes row the one that is evaluated.
func (r *metaReader) about(row *Row) {
	if r != nil {
		r.row = row
	}
}

// What a row knows besides its document lies behind its record where a sort holds
// it back: it counts in the sort's memory, and goes to the disk with the row.

// tagSize is the length of a tag, in bytes, at the end of it.
const tagSize = 4

// tag is record with m behind it. m may be nil.
func (m *Meta) tag(record []byte) []byte {
	var b bson.Builder
	if m != nil {
		b.Double("distance", m.Distance).Value("point", m.Point)
		if m.Scored {
			b.Double("score", m.Score)
		}
		if m.Key != nil {
			b.Doc("key", m.Key)
		}
	}
	d := b.Finish()
	out := append(make([]byte, 0, len(record)+len(d)+tagSize), record...)
	return binary.BigEndian.AppendUint32(append(out, d...), uint32(len(d)))
}

// untag takes a record and what lies behind it apart.
func untag(tagged []byte) ([]byte, *Meta) {
	end := len(tagged) - tagSize
	at := end - int(binary.BigEndian.Uint32(tagged[end:]))
	d := bson.Doc(tagged[at:end])
	record := tagged[:at:at]
	if d.IsEmpty() {
		return record, nil
	}
	score := d.Lookup("score")
	m := &Meta{Distance: bson.ToDouble(d.Lookup("distance")), Point: d.Lookup("point").Clone(), Scored: !score.IsMissing()}
	if m.Scored {
		m.Score = bson.ToDouble(score)
	}
	if key := d.Lookup("key"); !key.IsMissing() {
		m.Key = key.Doc().Clone()
	}
	return record, m
}
