package shard

import (
	"bytes"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/plan"
)

// Write has the properties of an update, a delete or a findAndModify that targeting needs.
type Write struct {
	Query  *plan.Query
	Multi  bool
	Upsert bool
	// Returns says that the statement returns the document (findAndModify) or sorts, so
	// it cannot be sent to several shards at once.
	Returns bool
}

// Mode says how a write is sent to its targets.
type Mode uint8

// The modes.
const (
	// Direct: each shard gets the statement, and executes it on its own documents.
	Direct Mode = iota
	// ByID: the write is for one document, given by _id alone: each shard gets it, and
	// the shard with the document changes it.
	ByID
	// TwoPhase: the write is for one document, which any of several shards may have:
	// the router asks them for a match, and sends the statement to the chosen
	// document's shard. An upsert without a match is sent to the shard of the document
	// that it inserts.
	TwoPhase
)

// String names the mode for explain and tests.
func (m Mode) String() string { return [...]string{"direct", "by _id", "two phases"}[m] }

// TargetInsert returns the shard of a new document. Error 61 for
// arrays in its shard key.
func (m *Map) TargetInsert(doc bson.Doc) (string, error) {
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	at, err := m.key.Append(s.key[:0], doc)
	if err != nil {
		return "", err
	}
	s.key = at
	return m.ShardOf(at), nil
}

// TargetWrite returns the shards that a write targets, and how it is sent to them.
// Since 7.0 a statement for one document needs no shard key. Error 61 for a multi
// upsert without the value of the whole shard key.
func (m *Map) TargetWrite(w *Write) (Targets, Mode, error) {
	t := m.Target(w.Query)
	switch {
	case t.Reason == ByKey:
		return t, Direct, nil
	case w.Multi && w.Upsert:
		return t, Direct, mongoerr.New(mongoerr.ShardKeyNotFound, "Failed to target upsert by query :: could not extract exact shard key")
	case w.Multi:
		return t, Direct, nil
	case w.Upsert: // the inserted document may belong to another shard
		return t, TwoPhase, nil
	case len(t.Shards) == 1:
		return t, Direct, nil
	case !w.Returns && hasID(w.Query):
		return t, ByID, nil
	}
	return t, TwoPhase, nil
}

// hasID reports whether a filter has an equality on _id, under a collation that all
// shards share.
func hasID(q *plan.Query) bool {
	if q.Filter == nil {
		return false
	}
	for _, n := range match.Conjuncts(q.Filter.Root()) {
		if c, ok := n.(*match.Compare); ok && c.Op == match.Eq && c.Path == "_id" {
			return q.Collator == nil || !hasStrings(c.Value)
		}
	}
	return false
}

// Owner decides which documents of a collection a shard owns: it filters scans, and
// checks writes. It is not safe for concurrent use.
type Owner struct {
	m      *Map
	number int // -1 if it owns nothing
	key    []byte
	last   Range // the chunk of the last document
	mine   bool  // whether the shard owns it
}

// Owner returns the filter of one shard.
func (m *Map) Owner(shard string) *Owner {
	o := &Owner{m: m, number: -1}
	for n, s := range m.shards {
		if s == shard {
			o.number = n
		}
	}
	return o
}

// Owns reports whether the shard owns a document. A document in the same chunk as the
// last one needs no look-up. Error 61 for arrays in its shard key.
func (o *Owner) Owns(doc bson.Doc) (bool, error) {
	at, err := o.m.key.Append(o.key[:0], doc)
	if err != nil {
		return false, err
	}
	o.key = at
	if bytes.Compare(o.last.Min.Key, at) > 0 || bytes.Compare(at, o.last.Max.Key) >= 0 {
		b, i := o.m.find(at)
		o.last, o.mine = b.rangeOf(i), b.entries[i].shard() == o.number
	}
	return o.mine, nil
}
