package schema

import (
	"slices"
	"strconv"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// PluginExtreme marks a part of an index of buckets that holds a bound of the
// values of one field of the measurements: what match.BucketExtremes says, and
// not what control.min or control.max does.
const PluginExtreme = "extreme"

// bucketIndex is an index of buckets with parts on fields of measurements.
type bucketIndex struct {
	btree
	// plain is the index with those parts on ordinary fields.
	plain *Index
	// paths are the components of the measurements' paths, by part; nil for parts
	// on the meta value and the time.
	paths [][]string
}

// sidesDepth is how many components "control.min" has.
const sidesDepth = 2

// withExtremes makes the parts of ix from a number of them on bounds of fields
// of measurements, where they are on another field than the time.
func (t *Timeseries) withExtremes(ix *Index) *Index {
	k := bucketIndex{paths: make([][]string, len(ix.Parts))}
	plain := *ix
	plain.Parts = slices.Clone(ix.Parts)
	ix.Parts = slices.Clone(ix.Parts)
	found := false
	for i := range ix.Parts {
		c := ix.Parts[i].Components
		if c[0] != "control" || ix.Parts[i].Path == "control.min."+t.TimeField || ix.Parts[i].Path == "control.max."+t.TimeField {
			continue
		}
		found = true
		k.paths[i] = c[sidesDepth:]
		name := strconv.Itoa(i)
		plain.Parts[i].Path, plain.Parts[i].Components = name, []string{name}
		ix.Parts[i].Plugin = PluginExtreme
	}
	if !found {
		return ix
	}
	plain.keyParts, plain.Filter = plain.Parts, nil
	k.plain = &plain
	ix.kind = k
	return ix
}

func (k bucketIndex) keys(ix *Index, bucket bson.Doc, dst []Key) ([]Key, MultikeyPaths, error) {
	var b bson.Builder
	b.Reset(nil)
	b.Value("meta", bucket.Lookup("meta")).Value("control", bucket.Lookup("control"))
	for i, path := range k.paths {
		if path == nil {
			continue
		}
		v, hi := match.BucketExtremes(bucket, path)
		if ix.Parts[i].Components[1] == "max" {
			v = hi
		}
		b.Value(strconv.Itoa(i), v)
	}
	return k.plain.kind.keys(k.plain, b.Finish(), dst)
}
