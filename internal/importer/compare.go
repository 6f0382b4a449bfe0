package importer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

// maxDifferences bounds the documents that are named.
const maxDifferences = 20

// differences are the documents that source and target do not have alike.
type differences struct {
	n     int
	named []string
}

func (d *differences) add(db, coll string, id bson.Value, what string) {
	if d.n++; len(d.named) < maxDifferences {
		d.named = append(d.named, fmt.Sprintf("%s.%s, _id %s: %s", db, coll, id, what))
	}
}

// verified is what was found of a collection.
type verified struct {
	documents int64
	sum       string // SHA-256 of its documents in the order of _id
}

// comparison compares a collection of both ends, which are at rest, by ranges of _id: the first
// one begins at MinKey and the last one ends at MaxKey.
type comparison struct {
	im       *Importer
	db, coll string
	found    *differences
	sum      hash.Hash
	n        int64
}

// compare compares a collection.
func (im *Importer) compare(ctx context.Context, db, coll string, found *differences) (v verified, err error) {
	c := &comparison{im: im, db: db, coll: coll, found: found, sum: sha256.New()}
	s := &scan{e: im.from, db: db, coll: coll, concern: im.sourceConcern(), limit: min(firstBatch, im.o.batch), most: im.o.batch}
	for {
		after := s.last
		docs, err := s.next(ctx)
		if err != nil {
			return v, err
		}
		if err := c.batch(ctx, after, docs); err != nil {
			return v, err
		}
		if len(docs) == 0 {
			return verified{c.n, hex.EncodeToString(c.sum.Sum(nil))}, nil
		}
		for _, d := range docs {
			c.sum.Write(d)
		}
		c.n += int64(len(docs))
	}
}

// batch compares the documents that the source has behind an _id, up to the last of them, or to
// MaxKey if there are none.
func (c *comparison) batch(ctx context.Context, after bson.Value, docs []bson.Doc) error {
	want := max(1, len(docs))
	t := &scan{e: c.im.to, db: c.db, coll: c.coll, last: after, limit: want, most: want}
	var have []bson.Doc
	for len(have) < want { // a reply may have fewer, by size
		more, err := t.next(ctx)
		if err != nil {
			return err
		}
		if len(more) == 0 {
			break
		}
		t.limit = max(1, want-len(have)-len(more))
		have = append(have, more...)
	}
	if slices.EqualFunc(docs, have, func(a, b bson.Doc) bool { return bytes.Equal(a, b) }) {
		return nil
	}
	return c.name(ctx, after, docs)
}

// name finds which documents of a range differ, one by one.
func (c *comparison) name(ctx context.Context, after bson.Value, docs []bson.Doc) error {
	at := map[string]bool{} // the _ids at the source
	for _, d := range docs {
		id := d.Lookup("_id")
		at[key(id)] = true
		other, err := c.get(ctx, id)
		switch {
		case err != nil:
			return err
		case other == nil:
			c.found.add(c.db, c.coll, id, "it is missing at the target")
		case !bytes.Equal(other, d):
			c.found.add(c.db, c.coll, id, "it is another document at the target")
		}
	}
	b := new(bson.Builder).String("find", c.coll)
	if !after.IsMissing() {
		b.OpenDoc("filter").OpenDoc("_id").Value("$ne", after).Close().Close().OpenDoc("min").Value("_id", after).Close()
	}
	if n := len(docs); n > 0 {
		b.OpenDoc("max").Value("_id", docs[n-1].Lookup("_id")).Close()
	}
	ids, err := c.im.to.all(ctx, c.db, b.OpenDoc("hint").Int32("_id", 1).Close().OpenDoc("projection").Int32("_id", 1).Close().
		Int32("limit", int32(len(docs)+maxDifferences)).Finish()) // one too many is found, however many are equal
	if err != nil {
		return err
	}
	for _, d := range ids {
		if id := d.Lookup("_id"); !at[key(id)] {
			c.found.add(c.db, c.coll, id, "it is not at the source")
		}
	}
	return nil
}

// get returns the target's document with an _id, nil if there is none.
func (c *comparison) get(ctx context.Context, id bson.Value) (bson.Doc, error) {
	docs, err := c.im.to.all(ctx, c.db, new(bson.Builder).String("find", c.coll).OpenDoc("filter").OpenDoc("_id").Value("$eq", id).Close().Close().Finish())
	if err != nil || len(docs) == 0 {
		return nil, err
	}
	return docs[0], nil
}

// key is an _id as the key of a map.
func key(id bson.Value) string { return string(append([]byte{byte(id.Type)}, id.Data...)) }
