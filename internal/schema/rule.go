package schema

import (
	"bytes"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
)

// Rule is one reason for the documents of a collection to expire. It gives each document
// an instant, from which on the document is due, or none. Where a collection has several
// rules, the earliest instant counts. All instants are milliseconds since 1970.
type Rule struct {
	Kind RuleKind
	// Seconds is the time to live: after the date, or after the last write, where
	// -1 stands for no default.
	Seconds int64
	// Index has the documents in the order of their instants.
	Index *Index
	// Settings are the rule's own over those of its collection.
	Settings Expiry
	// Own are the rule's own alone, for what is counted for each by itself.
	Own Expiry
}

// RuleKind says where the instants of a rule come from.
type RuleKind uint8

// The kinds of rules.
const (
	// ByDate: the earliest date in the field of a TTL index.
	ByDate RuleKind = iota
	// ByID: the date in the _id of a clustered collection, from 1970 on.
	ByID
	// ByLastWrite: the time of the document's last write, and its own ttl or the
	// rule's default; see lastWrite.
	ByLastWrite
)

// String is the kind as $expiryStats prints it.
func (k RuleKind) String() string { return [...]string{"date", "_id", "lastWrite"}[k] }

// Never is the instant of a document that does not expire.
const Never = math.MaxInt64

// IndexRule is the rule that a TTL index makes, or nil: a special index gives no
// order of dates.
func IndexRule(ix *Index, collection *Expiry) *Rule {
	r := &Rule{Kind: ByDate, Seconds: ix.ExpireAfterSeconds, Index: ix, Own: ix.Expiry, Settings: ix.Expiry.Over(collection)}
	switch {
	case !ix.IsTTL() || len(ix.Parts) != 1:
		return nil
	case ix.Plugin == pluginLastWrite:
		r.Kind = ByLastWrite
	case ix.Plugin != "":
		return nil
	}
	return r
}

// CollectionRule is the rule that the expireAfterSeconds of a clustered
// collection makes, whose index on _id is id, or nil.
func CollectionRule(o *Options, id *Index) *Rule {
	if o.Clustered == nil || o.ExpireAfterSeconds == NoExpiry {
		return nil
	}
	return &Rule{Kind: ByID, Seconds: o.ExpireAfterSeconds, Index: id, Settings: o.Expiry}
}

// SeriesRule is the rule that the expireAfterSeconds of a time-series collection
// makes, or nil. It has no index.
func SeriesRule(o *Options) *Rule {
	if o.Timeseries == nil || o.ExpireAfterSeconds == NoExpiry {
		return nil
	}
	return &Rule{Kind: ByDate, Seconds: o.ExpireAfterSeconds, Settings: o.Expiry}
}

// Same reports whether two rules remove the same documents, at the same instants and within
// the same limits. Either may be nil; nil is the same as no rule.
func (r *Rule) Same(o *Rule) bool {
	if r == nil || o == nil {
		return false
	}
	window := func(w *TimeWindow) TimeWindow {
		if w == nil {
			return TimeWindow{}
		}
		return *w
	}
	a, b := r.Settings, o.Settings
	if window(a.Window) != window(b.Window) || (a.Window == nil) != (b.Window == nil) {
		return false
	}
	if !a.Archive.Same(b.Archive) {
		return false
	}
	a.Window, b.Window, a.Archive, b.Archive = nil, nil, nil, nil
	return r.Kind == o.Kind && r.Seconds == o.Seconds && a == b && r.Own.Budget == o.Own.Budget && sameSpec(r.Index, o.Index)
}

// sameSpec reports whether two indexes have the same specification; nil equals only
// nil.
func sameSpec(a, b *Index) bool {
	return a == b || a != nil && b != nil && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Spec, b.Spec)
}

// Reads are the paths that decide when a document is due, but for those of the
// filter of a partial index.
func (r *Rule) Reads() []string {
	if r.Kind == ByLastWrite {
		return []string{LastWriteField, TTLField}
	}
	return []string{r.Index.Parts[0].Path}
}

// Due is the instant of a document, or Never.
func (r *Rule) Due(doc bson.Doc) int64 {
	if r.Index.Filter != nil {
		if in, err := r.Index.Filter.Match(doc); err != nil || !in {
			return Never
		}
	}
	if r.Kind == ByLastWrite {
		return r.ofKey(lastWriteKey(doc, r.Index.since))
	}
	v, _ := walk(doc, r.Index.Parts[0].Components)
	if v.Type != bson.TypeArray {
		return r.ofKey(v)
	}
	return r.earliest(doc)
}

// HasOneDate reports whether the path of the rule's date leads to a date, and to no array.
func (r *Rule) HasOneDate(doc bson.Doc) bool {
	v, _ := walk(doc, r.Index.Parts[0].Components)
	return v.Type == bson.TypeDate
}

// earliest returns the instant of a document with an array on the path: as in
// the index, its earliest date counts.
func (r *Rule) earliest(doc bson.Doc) int64 {
	keys, _, err := r.Index.Keys(doc, nil)
	if err != nil {
		return Never
	}
	due := int64(Never)
	for _, k := range keys {
		if at, err := r.DueOfKey(k.Bytes, k.TypeBits); err == nil {
			due = min(due, at)
		}
	}
	return due
}

// DueOfKey is the instant that an entry of the rule's index stands for, or
// Never.
func (r *Rule) DueOfKey(key, typeBits []byte) (int64, error) {
	values, _, err := keystring.Decode(key, typeBits, r.Index.Directions())
	if err != nil {
		return Never, err
	}
	return r.ofKey(values[0]), nil
}

func (r *Rule) ofKey(v bson.Value) int64 {
	if r.Kind == ByLastWrite {
		return lastWriteDue(v, r.Seconds)
	}
	if v.Type != bson.TypeDate || r.Kind == ByID && v.Date() < 0 {
		return Never
	}
	if v.Date() > Never-1-r.Seconds*1000 {
		return Never - 1
	}
	return v.Date() + r.Seconds*1000
}

// Range is a run of values in a rule's index, both ends included.
type Range struct{ From, To bson.Value }

// DueRanges are the entries of the index that are due at an instant: exactly
// those whose instant is at or before it.
func (r *Rule) DueRanges(now int64) []Range { return r.RangesBetween(math.MinInt64, now) }

// RangesBetween are the entries of the index with an instant after one and up
// to another.
func (r *Rule) RangesBetween(after, upTo int64) []Range {
	if r.Kind == ByLastWrite {
		return lastWriteRanges(after, upTo, r.Seconds)
	}
	first := int64(math.MinInt64)
	if after != math.MinInt64 {
		first = r.before(after)
		if first != math.MaxInt64 {
			first++
		}
	}
	if r.Kind == ByID {
		first = max(first, 0)
	}
	last := int64(math.MaxInt64)
	if upTo < Never-1 {
		last = r.before(upTo)
	}
	if last < first {
		return nil
	}
	return []Range{{bson.Date(first), bson.Date(last)}}
}

// before returns the last date that is due at an instant.
func (r *Rule) before(now int64) int64 {
	if now < math.MinInt64+r.Seconds*1000 {
		return math.MinInt64
	}
	return now - r.Seconds*1000
}
