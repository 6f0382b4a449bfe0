package shard

import (
	"iter"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Change is a change of a collection's chunks: the documents in config.chunks to write
// and to remove, in one transaction. Map.With(Put) returns the resulting map.
type Change struct {
	Put     []Chunk
	Removed [][12]byte
}

// next returns the n-th version after the collection's, for changes that move no data.
func (m *Map) next(n int) Version { return m.gen.At(m.top + uint64(n)) }

// nextMajor returns the n-th version of the next move.
func (m *Map) nextMajor(n int) Version {
	v := m.Version()
	return Version{ShardGeneration: m.gen, Major: v.Major + 1, Minor: uint32(n)}
}

// Split splits the chunk r at points, which are inside it in ascending order. The
// first part keeps the id; newID makes the others. Errors: 72 for points that are not
// ascending or are outside, 87 for the lower bound of the chunk, 20 if r is not a
// chunk.
func (m *Map) Split(r Range, points []Bound, newID func() [12]byte) (Change, error) {
	c := m.Find(r.Min.Key)
	if !c.Range.Same(r) {
		return Change{}, mongoerr.New(mongoerr.IllegalOperation, "no chunk found with the shard key bounds %s", m.key.RangeText(r))
	}
	var change Change
	at := c.Min
	for i, p := range append(points[:len(points):len(points)], c.Max) {
		last := i == len(points)
		switch {
		case p.Compare(c.Min) == 0:
			return Change{}, mongoerr.New(mongoerr.CannotSplit, "cannot split chunk %s at its lower bound", m.key.RangeText(r))
		case !last && (p.Compare(c.Min) < 0 || p.Compare(c.Max) >= 0):
			return Change{}, mongoerr.New(mongoerr.InvalidOptions, "Split key %s not contained within chunk %s", m.key.Doc(p), m.key.RangeText(r))
		case p.Compare(at) <= 0:
			return Change{}, mongoerr.New(mongoerr.InvalidOptions,
				"Split keys must be specified in strictly increasing order. Key %s was specified after key %s.", m.key.Doc(p), m.key.Doc(at))
		}
		part := c
		part.Range, part.Version, part.Jumbo = Range{Min: at, Max: p}, m.next(i+1), false
		if i > 0 {
			part.ID = newID()
		}
		change.Put = append(change.Put, part)
		at = p
	}
	return change, nil
}

// Merge merges the chunks that make up r, which one shard owns, into the first. A range
// that is already one chunk is left unchanged. Error 20 if they do not fill r, or
// belong to several shards.
func (m *Map) Merge(r Range) (Change, error) {
	var change Change
	var merged Chunk
	n := 0
	for c := range m.Overlapping(r) {
		switch {
		case n == 0:
			merged = c
		case c.Shard == merged.Shard:
			change.Removed = append(change.Removed, c.ID)
			if c.Since() > merged.Since() {
				merged.History = c.History
			}
			merged.Max = c.Max
		default:
			return Change{}, m.cannotMerge(r, merged.Shard)
		}
		n++
	}
	if !merged.Range.Same(r) {
		return Change{}, m.cannotMerge(r, merged.Shard)
	}
	if n == 1 {
		return Change{}, nil
	}
	if merged.History != nil {
		merged.History = merged.History[:1]
	}
	merged.Version, merged.Jumbo = m.next(1), false
	change.Put = []Chunk{merged}
	return change, nil
}

func (m *Map) cannotMerge(r Range, shard string) error {
	return mongoerr.New(mongoerr.IllegalOperation,
		"could not merge chunks, shard %s does not contain a sequence of chunks that exactly fills the range %s", shard, m.key.RangeText(r))
}

// Move moves r, a chunk or a part of one, to another shard at the cluster time at. The
// rest of the chunk stays, as separate chunks; if there is none, another chunk of the
// donor gets a higher version, so that the donor's version rises (invariant version).
// History older than keepSince is dropped. A range that is already on that shard is
// left unchanged. Error 20 if r is not within one chunk.
func (m *Map) Move(r Range, to string, at, keepSince uint64, newID func() [12]byte) (Change, error) {
	c := m.Find(r.Min.Key)
	if !c.Contains(r) || r.Min.Compare(r.Max) >= 0 {
		return Change{}, mongoerr.New(mongoerr.IllegalOperation, "the range %s is not within one chunk of %s", m.key.RangeText(r), m.Namespace)
	}
	if c.Shard == to {
		return Change{}, nil
	}
	moved := c
	moved.Range, moved.Shard, moved.Jumbo, moved.Version = r, to, false, m.nextMajor(0)
	moved.History = []Placement{{at, to}}
	for _, p := range c.History {
		moved.History = append(moved.History, p)
		if p.ValidAfter <= keepSince {
			break // it covers the rest of the requested range
		}
	}
	change := Change{Put: []Chunk{moved}}
	for _, left := range []Range{{Min: c.Min, Max: r.Min}, {Min: r.Max, Max: c.Max}} {
		if left.Min.Compare(left.Max) < 0 {
			rest := c
			rest.Range, rest.ID, rest.Version, rest.Jumbo = left, newID(), m.nextMajor(len(change.Put)), false
			change.Put = append(change.Put, rest)
		}
	}
	if len(change.Put) > 1 {
		return change, nil
	}
	if control, ok := m.anotherOf(c.Shard, c.Range); ok {
		control.Version = m.nextMajor(1)
		change.Put = append(change.Put, control)
	}
	return change, nil
}

// anotherOf returns a chunk of a shard that is not r.
func (m *Map) anotherOf(shard string, r Range) (Chunk, bool) {
	for c := range m.anyOn(shard) {
		if !c.Same(r) {
			return c, true
		}
	}
	return Chunk{}, false
}

// SplitWhere returns the chunk of a split command, and where to split it; a nil middle
// means that the shard is asked for the median. Exactly one of find (a query, or a
// document, with the shard key's values), bounds (two documents) and middle is
// given. (src/mongo/s/commands/cluster_split_cmd.cpp)
func (m *Map) SplitWhere(find bson.Doc, bounds []bson.Value, middle bson.Doc) (Chunk, *Bound, error) {
	given := 0
	for _, is := range []bool{find != nil, bounds != nil, middle != nil} {
		if is {
			given++
		}
	}
	switch {
	case given == 0:
		return Chunk{}, nil, failed("need to specify find/bounds or middle")
	case find != nil && bounds != nil:
		return Chunk{}, nil, failed("cannot specify find and bounds")
	case given > 1:
		return Chunk{}, nil, failed("cannot specify find/bounds and middle")
	case find != nil:
		c, err := m.chunkOf(find)
		return c, nil, err
	case bounds != nil:
		c, err := m.chunkWith(bounds)
		return c, nil, err
	}
	b, ok := m.key.ParseBound(middle)
	if !ok {
		return Chunk{}, nil, failed("new split key %s is not valid for shard key pattern %s", middle, m.key)
	}
	c := m.Find(b.Key)
	if c.Min.Compare(b) == 0 || c.Max.Compare(b) == 0 {
		return Chunk{}, nil, failed("new split key %s is a boundary key of existing chunk %s", middle, m.key.RangeText(c.Range))
	}
	return c, &b, nil
}

// chunkOf returns the chunk that holds documents with the shard key of find.
func (m *Map) chunkOf(find bson.Doc) (Chunk, error) {
	for i := range m.key.Parts {
		if m.key.Parts[i].Value(find).IsMissing() {
			return Chunk{}, failed("no shard key found in chunk query %s", find)
		}
	}
	at, err := m.key.Append(nil, find)
	if err != nil {
		return Chunk{}, failed("no shard key found in chunk query %s", find)
	}
	return m.Find(at), nil
}

// chunkWith returns the chunk with these bounds.
func (m *Map) chunkWith(bounds []bson.Value) (Chunk, error) {
	if len(bounds) != 2 || bounds[0].Type != bson.TypeDocument || bounds[1].Type != bson.TypeDocument {
		return Chunk{}, failed("bounds must be an array of two documents")
	}
	lo, okLo := m.key.ParseBound(bounds[0].Doc())
	hi, okHi := m.key.ParseBound(bounds[1].Doc())
	if !okLo || !okHi {
		return Chunk{}, failed("shard key bounds [%s,%s) are not valid for shard key pattern %s", bounds[0], bounds[1], m.key)
	}
	c := m.Find(lo.Key)
	if !c.Range.Same(Range{Min: lo, Max: hi}) {
		return Chunk{}, failed("no chunk found with the shard key bounds %s", m.key.RangeText(Range{Min: lo, Max: hi}))
	}
	return c, nil
}

// failed is the error of an old command, which has a message but no code.
func failed(format string, args ...any) error {
	return mongoerr.New(mongoerr.CommandFailed, format, args...)
}

// CutBySize returns at most limit points that split documents into parts of about size
// bytes. The documents come in the order of their keys, each with its bytes. No point
// separates documents with the same key, so a part with a single key may be larger. The
// lower bound of the range is never a point.
func CutBySize(documents iter.Seq2[Bound, int64], size int64, limit int) []Bound {
	var points []Bound
	var last Bound
	var sum int64
	for at, bytes := range documents {
		rises := last.Key != nil && last.Compare(at) != 0
		if rises && sum+bytes > size && sum > 0 && len(points) < limit {
			points, sum = append(points, at), 0
		}
		last, sum = at, sum+bytes
	}
	return points
}

// Median returns the point that splits a range into halves: the median of its sorted
// keys, or the next key that is not the first. Error 87 if all are equal.
func Median(keys []Bound) (Bound, error) {
	for at := len(keys) / 2; at < len(keys); at++ {
		if keys[at].Compare(keys[0]) != 0 {
			return keys[at], nil
		}
	}
	return Bound{}, mongoerr.New(mongoerr.CannotSplit, "cannot find a split point: the chunk holds a single shard key value, or none")
}
