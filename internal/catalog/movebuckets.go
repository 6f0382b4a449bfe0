package catalog

import (
	"context"
	"encoding/binary"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/storage"
)

// What moves of a sharded time series are its buckets (docs/rfcs/0025-sharded-time-series.md).
// No index has their _ids: a bucket is found by the second in which it begins, which its _id
// has, as its record lies between that and the longest span later.

// idSeconds is how many seconds an ObjectId counts before it begins anew.
const idSeconds = 1 << 32

// FindBuckets returns the record keys of those of some buckets that a state of the store has,
// by the type and the bytes of _id. Bounded by a walk of the keys of all buckets that began
// when these did. REQUIRES: HoldsBuckets.
func (c *Collection) FindBuckets(ctx context.Context, r storage.Reader, ids []bson.Value) (map[string]RecordKey, error) {
	if err := invariant.Require(c.HoldsBuckets(), "catalog: FindBuckets is of a collection that HoldsBuckets"); err != nil {
		return nil, err
	}
	f := bucketFinder{c: c, wanted: map[string]string{}, found: map[string]RecordKey{}}
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, id := range ids {
		f.wanted[string(c.appendID(nil, id))] = IDName(id)
		if id.Type != bson.TypeObjectID {
			return f.found, f.walk(ctx, r, nil, nil)
		}
		b := id.ObjectID()
		second := int64(binary.BigEndian.Uint32(b[:4]))
		first, last = min(first, second), max(last, second)
	}
	if len(ids) == 0 {
		return f.found, nil
	}
	at := func(ms int64) []byte { return keystring.Append(nil, bson.Date(ms), false, nil) }
	span := c.Settings.Timeseries.MaxSpanSeconds * 1000
	for _, part := range [][2][]byte{
		{at(first * 1000), at((last+1)*1000 + span)},
		{nil, at(span)}, // those that began before 1970, whose seconds an ObjectId does not keep
		{at(idSeconds * 1000), nil},
	} {
		if len(f.wanted) == 0 {
			break
		}
		if err := f.walk(ctx, r, part[0], part[1]); err != nil {
			return nil, err
		}
	}
	return f.found, nil
}

// IDName is the type and the bytes of an _id.
func IDName(id bson.Value) string { return string(id.Type) + string(id.Data) }

// bucketFinder finds buckets by the key strings of their _ids.
type bucketFinder struct {
	c      *Collection
	wanted map[string]string // the names, by key string
	found  map[string]RecordKey
}

// finderTurn is how many keys are looked at between two looks at the context.
const finderTurn = 1000

// walk looks at the keys of records from one up to another, without their values.
func (f *bucketFinder) walk(ctx context.Context, r storage.Reader, from, to []byte) (err error) {
	it, err := r.NewIter(f.c.Ident, from, to)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := it.Close(); err == nil {
			err = cerr
		}
	}()
	n := 0
	for ok := it.First(); ok && len(f.wanted) > 0; ok = it.Next() {
		if n++; n%finderTurn == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		id, ok := f.c.layout.ID(it.Key())
		if !ok {
			continue
		}
		if name, wanted := f.wanted[string(id)]; wanted {
			f.found[name] = append(RecordKey(nil), it.Key()...)
			delete(f.wanted, string(id))
		}
	}
	return it.Err()
}

// measured returns how many measurements a bucket has.
func measured(bucket bson.Doc) int64 {
	return bson.ClampToInt64(bucket.Lookup("control").Doc().Lookup("count"))
}

// InsertBucket adds a bucket of another shard, which is not here. Errors: 26, and those of
// admit.
func (u *Unit) InsertBucket(ctx context.Context, c *Collection, bucket bson.Doc) error {
	c, err := u.enter(ctx, c)
	if err != nil {
		return err
	}
	if err := u.addBucket(ctx, c, bucket); err != nil {
		return err
	}
	u.AddMeasured(c, measured(bucket))
	return nil
}

// ReplaceBucket replaces old, which LockRecord returned for key, by the same bucket as another
// shard has it now. Errors as for Update.
func (u *Unit) ReplaceBucket(ctx context.Context, c *Collection, key RecordKey, old, bucket bson.Doc) error {
	if err := u.Update(ctx, c, key, old, bucket); err != nil {
		return err
	}
	u.AddMeasured(c, measured(bucket)-measured(old))
	return nil
}

// DeleteBucket removes a bucket with its measurements. Errors as for Delete.
func (u *Unit) DeleteBucket(ctx context.Context, c *Collection, key RecordKey, old bson.Doc) error {
	if err := u.Delete(ctx, c, key, old); err != nil {
		return err
	}
	u.AddMeasured(c, -measured(old))
	return nil
}
