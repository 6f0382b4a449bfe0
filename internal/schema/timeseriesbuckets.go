package schema

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// BucketForm is an index of a time-series collection as its buckets have it: of
// the time and of each other field of the measurements the least and the
// greatest value, as far as the parts are plain ones, and not too many. Nil
// where nothing is left, and the buckets have no entries.
func (t *Timeseries) BucketForm(ix *Index) (*Index, error) {
	var key bson.Builder
	key.Reset(nil)
	parts := 0
	for path, direction := range ix.Key.All() {
		if !t.isMeta(path) && (!direction.IsNumber() || path != t.TimeField && ix.Plugin != "") || parts > maxParts-2 {
			break
		}
		key.Fields(t.bucketKey(new(bson.Builder).Value(path, direction).Finish()))
		parts += 2
	}
	if parts == 0 {
		return nil, nil
	}
	var b bson.Builder
	for name, v := range ix.Spec.All() {
		switch name {
		case "key":
			b.Doc(name, key.Finish())
		case "partialFilterExpression":
			// A filter on measurements says nothing about whole buckets.
			if t.onMeta(ix.Filter.Root()) {
				b.Doc(name, t.BucketFilter(ix.PartialFilter))
			}
		default:
			b.Value(name, v)
		}
	}
	form, err := LoadIndex(b.Finish())
	if err != nil {
		return nil, err
	}
	return t.withExtremes(form), nil
}

// BucketFilter turns a filter on the metaField into the one that finds the
// buckets of the measurements that it finds.
func (t *Timeseries) BucketFilter(filter bson.Doc) bson.Doc {
	var b bson.Builder
	b.Reset(nil)
	for name, v := range filter.All() {
		switch {
		case strings.HasPrefix(name, "$") && v.Type == bson.TypeArray:
			b.OpenArray(name)
			for i, e := range v.Doc().Slice() {
				b.Doc(bson.Index(i), t.BucketFilter(e.Doc()))
			}
			b.Close()
		case t.isMeta(name):
			b.Value("meta"+strings.TrimPrefix(name, t.MetaField), v)
		default:
			b.Value(name, v)
		}
	}
	return b.Finish()
}

// IsMeta reports whether a path is the metaField or lies in it.
func (t *Timeseries) IsMeta(path string) bool { return t.isMeta(path) }

// BucketOrder is the order of the buckets as an index of the records: by the
// time of their last measurement.
func (t *Timeseries) BucketOrder() (*Index, error) {
	return LoadIndex(new(bson.Builder).Int32("v", 2).OpenDoc("key").Int32("control.max."+t.TimeField, 1).Close().String("name", "_id_").Finish())
}
