package schema

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// LoadTimeseries reads options as listCollections shows them.
func LoadTimeseries(d bson.Doc) *Timeseries { return loadTimeseries(d) }

// Doc returns the options as listCollections shows them.
func (t *Timeseries) Doc() bson.Doc { return t.doc() }

// bucketMeta is the field of a bucket with the meta value.
const bucketMeta = "meta"

// startPath is the path of the time at which a bucket begins.
func (t *Timeseries) startPath() string { return "control.min." + t.TimeField }

// BucketShardKey turns a shard key of measurements into the one of their buckets:
// {sensor: 1, at: 1} into {meta: 1, "control.min.at": 1}. Errors: 5914001 for a field that is
// neither the time nor in the meta value, 5914000 for a time that is not last, 2 for a
// time that is not ascending. (Manual: "Shard a Time Series Collection".)
func (t *Timeseries) BucketShardKey(key bson.Doc) (bson.Doc, error) {
	var b bson.Builder
	left := key.Len()
	for path, v := range key.All() {
		left--
		switch {
		case path == t.TimeField && left > 0:
			return nil, mongoerr.New(mongoerr.Code(5914000), "the time field '%s' can be only at the end of the shard key pattern", path)
		case path == t.TimeField && (!v.IsNumber() || bson.ClampToInt64(v) != 1):
			return nil, mongoerr.New(mongoerr.BadValue, "Invalid shard key for a time-series collection: %s. The time field '%s' must be ascending", key, path)
		case path == t.TimeField:
			b.Value(t.startPath(), v)
		case t.isMeta(path):
			b.Value(bucketMeta+strings.TrimPrefix(path, t.MetaField), v)
		default:
			return nil, mongoerr.New(mongoerr.Code(5914001), "only the time field or the meta field can be part of the shard key pattern of a time-series collection: %s", key)
		}
	}
	return b.Finish(), nil
}

// ShardKeyIndex returns the key of the client's index for a shard key of buckets: what
// BucketShardKey was given.
func (t *Timeseries) ShardKeyIndex(key bson.Doc) bson.Doc {
	var b bson.Builder
	for path, v := range key.All() {
		if path == t.startPath() {
			b.Value(t.TimeField, v)
		} else {
			b.Value(t.MetaField+strings.TrimPrefix(path, bucketMeta), v)
		}
	}
	return b.Finish()
}

// HasTime reports whether a shard key of buckets has the time.
func (t *Timeseries) HasTime(key bson.Doc) bool { return key.Has(t.startPath()) }

// PlaceOf returns a document with the fields of a bucket on which its place in a shard
// key depends: those of a bucket of a meta value, Missing for none, that begins at a time,
// in milliseconds.
func (t *Timeseries) PlaceOf(meta bson.Value, start int64) bson.Doc {
	var b bson.Builder
	return b.Value(bucketMeta, meta).OpenDoc("control").OpenDoc("min").Date(t.TimeField, start).Close().Close().Finish()
}
