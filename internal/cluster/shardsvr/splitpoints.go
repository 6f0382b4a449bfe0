package shardsvr

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/shard"
)

// splitPoints answers {_shardsvrSplitPoints: ns, min, max, bytes, limit}: where to cut a range
// into parts of so many bytes, or, with 0, in two halves.
func (r *request) splitPoints(ctx context.Context) error {
	c, err := r.sharded()
	if err != nil {
		return err
	}
	key := c.Sharding().Key
	span, err := r.rangeOf(key)
	if err != nil {
		return err
	}
	if c.IsTimeseries() { // which is cut between buckets
		if err := r.s.cat.SealAll(ctx, c); err != nil {
			return err
		}
		c = c.Buckets()
	}
	size, _ := bson.ExactInt64(r.body.Lookup("bytes"))
	limit, _ := bson.ExactInt64(r.body.Lookup("limit"))
	cut, err := r.s.cut(ctx, c, span, size, int(limit))
	if err != nil {
		return err
	}
	// Not where MaxKey in all fields begins: no chunk does.
	cut.points = slices.DeleteFunc(cut.points, func(p shard.Bound) bool { return p.Compare(key.Max()) == 0 })
	if size == 0 && len(cut.points) == 0 {
		_, err := shard.Median(nil)
		return err
	}
	r.reply.OpenArray("points")
	for i, p := range cut.points {
		r.reply.Doc(bson.Index(i), key.Doc(p))
	}
	r.reply.Close().Int64("bytes", cut.bytes).Int64("documents", cut.documents)
	return nil
}

// cuts are where to cut a range, and about how much there is in it.
type cuts struct {
	points           []shard.Bound
	bytes, documents int64
}

// errEmptyChunk is that of a median of nothing.
var errEmptyChunk = mongoerr.New(mongoerr.CannotSplit, "cannot find a split point: the chunk is empty")

// cut finds where to cut a range into parts of so many bytes, limit points at the most, or,
// with 0 bytes, in two halves. By an index on the shard key it reads no documents, and takes
// each for one of the collection's average size. Without one it reads the documents of the
// range, if the collection is laid out by the shard key or in slots, else all of the collection.
// Errors: 87.
func (s *Shard) cut(ctx context.Context, c *catalog.Collection, span schema.ShardRange, size int64, limit int) (cuts, error) {
	ix := c.ShardKeyIndex()
	if !c.InOrderOfShardKey() {
		return s.cutBySample(ctx, c, span, size, limit)
	}
	average := int64(1)
	if n := c.Count(); n > 0 {
		average = max(1, c.DataSize()/n)
	}
	var found cuts
	var keys [][]byte
	err := s.eachKey(ctx, c, ix, span, func(key []byte) bool { found.documents++; return true })
	if err != nil {
		return found, err
	}
	found.bytes = found.documents * average
	if size == 0 {
		if keys, err = s.median(ctx, c, ix, span, found.documents); err != nil {
			return found, err
		}
	} else if found.bytes > size {
		var failed error
		points := shard.CutBySize(func(yield func(shard.Bound, int64) bool) {
			var last []byte
			failed = s.eachKey(ctx, c, ix, span, func(key []byte) bool {
				if !bytes.Equal(key, last) {
					last = bytes.Clone(key)
				}
				return yield(shard.Bound{Key: last}, average)
			})
		}, size, limit)
		if failed != nil {
			return found, failed
		}
		for _, p := range points {
			keys = append(keys, p.Key)
		}
	}
	for _, key := range keys {
		p, ok, err := s.boundAt(ctx, c, key)
		if err != nil {
			return found, err
		}
		if ok {
			found.points = append(found.points, p)
		}
	}
	return found, nil
}

// median is shard.Median for the n keys of a range.
func (s *Shard) median(ctx context.Context, c *catalog.Collection, ix *catalog.Index, span schema.ShardRange, n int64) ([][]byte, error) {
	var first, middle []byte
	i := int64(0)
	err := s.eachKey(ctx, c, ix, span, func(key []byte) bool {
		if i == 0 {
			first = bytes.Clone(key)
		}
		if i >= n/2 && !bytes.Equal(key, first) {
			middle = bytes.Clone(key)
		}
		i++
		return middle == nil
	})
	switch {
	case err != nil:
		return nil, err
	case first == nil:
		return nil, errEmptyChunk
	case middle == nil:
		_, err := shard.Median(nil)
		return nil, err
	}
	return [][]byte{middle}, nil
}

// eachKey calls f with the shard keys of the documents of a range, in order, until it
// returns false.
func (s *Shard) eachKey(ctx context.Context, c *catalog.Collection, ix *catalog.Index, span schema.ShardRange, f func(key []byte) bool) (err error) {
	if ix == nil {
		return s.eachKeyOfRecords(ctx, c, span, f)
	}
	scan := s.exec.ScanKeys(c, ix, span.Min.Key, span.Max.Key)
	defer func() {
		if cerr := scan.Close(); err == nil {
			err = cerr
		}
	}()
	fields := len(c.Sharding().Key.Parts)
	for {
		key, _, err := scan.Next(ctx)
		if key == nil || err != nil {
			return err
		}
		if len(ix.Form.Parts) > fields {
			at := 0
			for range fields {
				at += keystring.Skip(key[at:], false)
			}
			key = key[:at]
		}
		if !f(key) {
			return nil
		}
	}
}

// eachKeyOfRecords is eachKey for a collection that is laid out by the shard key.
func (s *Shard) eachKeyOfRecords(ctx context.Context, c *catalog.Collection, span schema.ShardRange, f func(key []byte) bool) error {
	var room []byte
	var failed error
	err := s.each(ctx, c, span, bson.Value{}, func(doc bson.Doc, _ func() bson.Value) bool {
		if room, failed = c.Sharding().Key.Append(room[:0], doc); failed != nil {
			return false
		}
		return f(room)
	})
	if err == nil {
		err = failed
	}
	return err
}

// boundAt is the bound at which a shard key begins; ok is false if no document has it any
// more.
func (s *Shard) boundAt(ctx context.Context, c *catalog.Collection, key []byte) (b shard.Bound, ok bool, err error) {
	one := schema.ShardRange{Min: shard.Bound{Key: key}, Max: shard.Bound{Key: keystring.Successor(key)}}
	var failed error
	first := func(doc bson.Doc, _ func() bson.Value) bool {
		b, failed = c.Sharding().Key.BoundOf(doc)
		ok = failed == nil
		return false
	}
	if c.Windowed() && c.ShardKeyIndex() != nil { // rather than look into each window of a slot
		_, err = (&keyWalk{s: s, coll: c, span: one, f: first}).all(ctx)
	} else {
		err = s.each(ctx, c, one, bson.Value{}, first)
	}
	if err == nil {
		err = failed
	}
	return b, ok && err == nil, err
}

// sampleKeys is how many keys of a range are remembered where no index has them in order.
const sampleKeys = 10_000

// cutBySample is cut without an index, by a sample of what lies in the range.
func (s *Shard) cutBySample(ctx context.Context, c *catalog.Collection, span schema.ShardRange, size int64, limit int) (cuts, error) {
	key := c.Sharding().Key
	var found cuts
	var keys []shard.Bound
	var failed error
	each := func(f func(bson.Doc, func() bson.Value) bool) error {
		if c.HoldsBuckets() {
			return s.eachBucket(ctx, c, span, bson.Value{}, f)
		}
		return s.each(ctx, c, span, bson.Value{}, f)
	}
	err := each(func(doc bson.Doc, _ func() bson.Value) bool {
		found.documents++
		found.bytes += int64(len(doc))
		at := int64(len(keys))
		if at == sampleKeys {
			if at = rand.Int64N(found.documents); at >= sampleKeys {
				return true
			}
		} else {
			keys = append(keys, shard.Bound{})
		}
		keys[at], failed = key.BoundOf(doc)
		return failed == nil
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return found, err
	}
	slices.SortFunc(keys, shard.Bound.Compare)
	switch {
	case len(keys) == 0 && size == 0:
		return found, errEmptyChunk
	case size == 0:
		middle, err := shard.Median(keys)
		if err != nil {
			return found, err
		}
		found.points = []shard.Bound{middle}
	case len(keys) > 0:
		share := max(1, found.bytes/int64(len(keys)))
		found.points = shard.CutBySize(func(yield func(shard.Bound, int64) bool) {
			for _, k := range keys {
				if !yield(k, share) {
					return
				}
			}
		}, size, limit)
	}
	return found, nil
}
