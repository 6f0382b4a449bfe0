package schema

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// DefaultIndex is the index that a time-series collection has from the start:
// on its metaField and its time, nil if it has no metaField.
func (t *Timeseries) DefaultIndex() bson.Doc {
	if t.MetaField == "" {
		return nil
	}
	var b bson.Builder
	b.Int32("v", 2).OpenDoc("key").Int32(t.MetaField, 1).Int32(t.TimeField, 1).Close()
	return b.String("name", t.MetaField+"_1_"+t.TimeField+"_1").Finish()
}

// validateIndex checks whether a time-series collection may have an index; def is
// the collation of the collection. Errors: 72, 85, 67, and 7246201 for a wildcard
// on anything but the metaField, which would be two on the buckets.
func (t *Timeseries) validateIndex(ix *Index, def *Collation) error {
	switch {
	case ix.Unique:
		return invalidOptions("Unique indexes are not supported on time-series collections")
	case ix.Plugin == pluginText:
		return invalidOptions("Text indexes are not supported on time-series collections")
	case ix.Plugin == pluginWildcard && !t.keyOnMeta(ix.Key):
		return mongoerr.New(mongoerr.Code(7246201), "wildcard indexes do not allow compounding")
	}
	for path, direction := range ix.Key.All() {
		if t.isMeta(path) {
			continue
		}
		if ix.Sparse && path != t.TimeField {
			return invalidOptions("Sparse indexes are not supported on time-series measurements")
		}
		if !direction.IsNumber() && (path == t.TimeField || direction.Str() != pluginSphere) {
			return cannotCreate("Invalid index spec for time-series collection: %s. Indexes on measurement fields must be ascending or descending (numbers only): %s: %s",
				ix.Key, path, direction)
		}
	}
	if ix.Filter != nil && string(ix.Collation) != string(def.spec()) {
		return mongoerr.New(mongoerr.IndexOptionsConflict,
			"Partial indexes on time-series collections must have the collation of the collection. Index spec: %s", ix.Spec)
	}
	return t.validateTTLIndex(ix)
}

// validateTTLIndex allows a TTL on the time where the filter uses only the
// metaField, which all measurements of a bucket share.
func (t *Timeseries) validateTTLIndex(ix *Index) error {
	if !ix.IsTTL() {
		return nil
	}
	if ix.Filter == nil || !t.onMeta(ix.Filter.Root()) {
		return invalidOptions("TTL indexes on time-series collections require a partialFilterExpression on the metaField")
	}
	if path, _ := ix.Key.First(); path != t.TimeField {
		return invalidOptions("TTL indexes on non-time fields are not supported on time-series collections")
	}
	return nil
}

func (t *Timeseries) isMeta(path string) bool {
	return t.MetaField != "" && (path == t.MetaField || strings.HasPrefix(path, t.MetaField+"."))
}

// keyOnMeta reports whether all fields of an index are the metaField or below it.
func (t *Timeseries) keyOnMeta(key bson.Doc) bool {
	for path := range key.All() {
		if !t.isMeta(path) {
			return false
		}
	}
	return true
}

// onMeta reports whether a filter uses only the metaField.
func (t *Timeseries) onMeta(n match.Node) bool {
	switch n := n.(type) {
	case *match.And:
		return t.allOnMeta(n.Children)
	case *match.Or:
		return t.allOnMeta(n.Children)
	case match.Leaf:
		return t.isMeta(n.FieldPath())
	}
	return false
}

func (t *Timeseries) allOnMeta(ns []match.Node) bool {
	for _, n := range ns {
		if !t.onMeta(n) {
			return false
		}
	}
	return true
}

// BucketIndex is the specification of an index as the buckets of the
// collection have it: they keep the least and the greatest value of every
// field, and name the metaField "meta".
func (t *Timeseries) BucketIndex(spec bson.Doc) bson.Doc {
	var b bson.Builder
	for name, v := range spec.All() {
		if name == "key" {
			b.Doc(name, t.bucketKey(v.Doc()))
		} else {
			b.Value(name, v)
		}
	}
	return b.Finish()
}

func (t *Timeseries) bucketKey(key bson.Doc) bson.Doc {
	var b bson.Builder
	for path, direction := range key.All() {
		switch {
		case t.isMeta(path):
			b.Value("meta"+strings.TrimPrefix(path, t.MetaField), direction)
		case direction.Type == bson.TypeString:
			b.String("data."+path, direction.Str()+"_bucket")
		case bson.CompareNumbers(direction, bson.Int32(0)) < 0:
			b.Value("control.max."+path, direction).Value("control.min."+path, direction)
		default:
			b.Value("control.min."+path, direction).Value("control.max."+path, direction)
		}
	}
	return b.Finish()
}
