package schema

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
)

// pluginLastWrite is the kind of an index {_ts: 1} with expireAfterSeconds and
// the setting by: "lastWrite": the rule of Azure Cosmos DB, "Expire data with
// Time to Live". No key pattern names it. Without that setting {_ts: 1} is an
// index of dates like any other, and _ts a user's field.
const pluginLastWrite = "lastwrite"

// The fields of a document that the rule reads: the time of its last write in
// whole seconds since 1970, which the server sets, and its own time to live.
const (
	LastWriteField = "_ts"
	TTLField       = "ttl"
)

// lastWrite is an index by when documents expire after their last write. A
// document with a valid ttl of its own has the key {own: second at which it
// expires}, one with a ttl of -1 has none, every other one {age: second of its
// last write}: so a changed default acts at once and rebuilds nothing. The two
// classes follow each other in the index, each with the oldest first.
//
// The same rule serves containers of the Cosmos DB endpoint: a collection whose
// items carry _ts since ever has the index with since 0 (see WatchedFrom) and
// tells each unit the second of its writes (catalog.Unit.SetTime); the default
// is changed by replacing expireAfterSeconds, and paused while it is off. The
// TTL monitor removes what is due then.
//
// A document's ttl is valid when it is a whole number, -1 or from 1 to
// 2147483647, whatever its type; all else counts as absent.
type lastWrite struct{ since int64 }

// The two classes of keys.
const (
	classOwn = "own"
	classAge = "age"
)

func (lastWrite) configure(spec bson.Doc) indexKind {
	return lastWrite{bson.ClampToInt64(spec.Lookup(sinceField))}
}

func (lastWrite) validatePattern(bson.Doc) error { return nil }
func (lastWrite) collated() bool                 { return false }

func (lastWrite) validateSpec(spec bson.Doc) error {
	if spec.Lookup("unique").Truthy() || spec.Lookup("prepareUnique").Truthy() {
		return cannotCreate("An index by last writes cannot be unique")
	}
	return nil
}

func (k lastWrite) keys(ix *Index, doc bson.Doc, dst []Key) ([]Key, MultikeyPaths, error) {
	v := lastWriteKey(doc, k.since)
	if v.IsMissing() {
		return dst, nil, nil
	}
	return ix.appendKey(dst, []bson.Value{v}), nil, nil
}

// isLastWrite reports whether a specification asks for this kind of index.
func isLastWrite(spec bson.Doc) bool { return MayCountFromWrite(spec) && asksLastWrite(spec) }

// asksLastWrite reports whether the settings of a specification ask for a rule by
// last writes, whatever its key.
func asksLastWrite(spec bson.Doc) bool {
	v := expirySettings(document(spec.Lookup("storageEngine"))).Lookup("by")
	return v.Type == bson.TypeString && v.Str() == ByLastWrite.String()
}

// MayCountFromWrite reports whether a stored specification may ask for a rule by last
// writes: {_ts: 1} with expireAfterSeconds. Before there was a setting to ask with, each
// of those was such a rule; see AskedLastWrite.
func MayCountFromWrite(spec bson.Doc) bool {
	key := document(spec.Lookup("key"))
	name, v := key.First()
	return name == LastWriteField && key.Len() == 1 && v.IsNumber() && bson.Compare(v, bson.Int32(0)) > 0 &&
		spec.Lookup("expireAfterSeconds").IsNumber()
}

// AskedLastWrite returns the form in which a specification is stored now, for one from
// the time when {_ts: 1} with expireAfterSeconds by itself was a rule by last writes.
func AskedLastWrite(spec bson.Doc) bson.Doc {
	if !MayCountFromWrite(spec) || asksLastWrite(spec) {
		return spec
	}
	engine := document(spec.Lookup("storageEngine"))
	settings := new(bson.Builder).Fields(expirySettings(engine)).String("by", ByLastWrite.String()).Finish()
	var b bson.Builder
	b.Reset(nil)
	for name, v := range spec.All() {
		if name != "storageEngine" {
			b.Value(name, v)
		}
	}
	return b.Doc("storageEngine", withExpiry(engine, settings)).Finish()
}

// shown returns a specification without what only the server adds.
func shown(spec bson.Doc) bson.Doc {
	if !spec.Has(sinceField) && !spec.Has(lenientField) {
		return spec
	}
	var b bson.Builder
	b.Reset(nil)
	for name, v := range spec.All() {
		if name != sinceField && name != lenientField {
			b.Value(name, v)
		}
	}
	return b.Finish()
}

// OwnTTL is the time to live in seconds that a document's own ttl asks for, -1
// for never; false if the document has no valid one.
func OwnTTL(v bson.Value) (seconds int64, ok bool) {
	if !v.IsNumber() {
		return 0, false
	}
	n, whole := bson.ExactInt64(v)
	return n, whole && (n == -1 || n >= 1 && n <= math.MaxInt32)
}

// lastWriteKey returns the key of a document; Missing if it never expires.
func lastWriteKey(doc bson.Doc, since int64) bson.Value {
	at, own, ever := lastWriteAt(doc, since)
	if !ever {
		return bson.Value{}
	}
	class := classAge
	if own {
		class = classOwn
	}
	return bson.Document(new(bson.Builder).Int64(class, at).Finish())
}

// lastWriteAt returns the second at which a document with its own ttl expires,
// else that of its last write; ever is false if it never expires. What was
// written before since, when the rule began to track writes, counts as written
// then, as the time of such writes is not known.
func lastWriteAt(doc bson.Doc, since int64) (at int64, own, ever bool) {
	var written, ttl bson.Value
	for it := doc.Iter(); it.Next(); {
		switch {
		case it.Key == LastWriteField && written.IsMissing():
			written = it.Value
		case it.Key == TTLField && ttl.IsMissing():
			ttl = it.Value
		}
	}
	at, ok := bson.ExactInt64(written)
	if !ok || at > math.MaxUint32 {
		at = since
	}
	at = max(at, since)
	switch seconds, own := OwnTTL(ttl); {
	case !own:
		return at, false, true
	case seconds == -1:
		return 0, false, false
	default:
		return at + seconds, true, true
	}
}

// ByLastWrite reports whether the index has its documents in the order of their
// last writes, and from which second on it has watched those.
func (ix *Index) ByLastWrite() (since int64, ok bool) {
	return ix.since, ix.Plugin == pluginLastWrite
}

// LastWriteAt is the second since 1970 at which a document with a ttl of its
// own expires, else that of its last write; ever is false if it never
// expires. REQUIRES: ByLastWrite. It does not ask the index's filter.
func (ix *Index) LastWriteAt(doc bson.Doc) (at int64, own, ever bool) {
	invariant.Check(ix.Plugin == pluginLastWrite, "schema: LastWriteAt is of an index by the last write")
	return lastWriteAt(doc, ix.since)
}

// lastWriteDue returns the instant of a key, with that default.
func lastWriteDue(v bson.Value, seconds int64) int64 {
	class, at := document(v).First()
	switch {
	case class == classOwn:
		return at.Int64() * 1000
	case class == classAge && seconds >= 0:
		return (at.Int64() + seconds) * 1000
	}
	return Never
}

// lastWriteRanges returns the keys with an instant after one and up to another.
func lastWriteRanges(after, upTo, seconds int64) []Range {
	if upTo < 0 {
		return nil
	}
	from, to := int64(0), upTo/1000
	if after >= 0 {
		from = after/1000 + 1
	}
	var rs []Range
	add := func(class string, from, to int64) {
		if from > to {
			return
		}
		key := func(at int64) bson.Value { return bson.Document(new(bson.Builder).Int64(class, at).Finish()) }
		rs = append(rs, Range{key(from), key(to)})
	}
	if seconds >= 0 {
		add(classAge, max(0, from-seconds), to-seconds)
	}
	add(classOwn, from, to)
	return rs
}

// sinceField is the field of a stored specification of this kind with the time
// when the rule began to track the writes of its collection. listIndexes does
// not show it.
const sinceField = "since"

// WatchedFrom returns a specification whose rule, if it is one by last writes, watches
// its collection from that second on. One that has such a second already keeps it: 0 is
// for collections where _ts was always set.
func WatchedFrom(spec bson.Doc, second int64) bson.Doc {
	if !isLastWrite(spec) || spec.Has(sinceField) {
		return spec
	}
	return new(bson.Builder).Fields(spec).Int64(sinceField, second).Finish()
}

// Stamped returns a document with the time of its last write. One that has it already is
// returned as it is.
func Stamped(doc bson.Doc, second int64) bson.Doc {
	old := doc.Lookup(LastWriteField)
	if old.Type == bson.TypeInt64 && old.Int64() == second {
		return doc
	}
	var b bson.Builder
	b.Reset(make([]byte, 0, len(doc)+len(LastWriteField)+10))
	if old.IsMissing() {
		return b.Fields(doc).Int64(LastWriteField, second).Finish()
	}
	for it := doc.Iter(); it.Next(); {
		if it.Key != LastWriteField {
			b.Value(it.Key, it.Value)
			continue
		}
		b.Int64(LastWriteField, second)
	}
	return b.Finish()
}

// unstamped returns a document without the time of its last write.
func unstamped(doc bson.Doc) bson.Doc {
	var b bson.Builder
	b.Reset(nil)
	for it := doc.Iter(); it.Next(); {
		if it.Key != LastWriteField {
			b.Value(it.Key, it.Value)
		}
	}
	return b.Finish()
}
