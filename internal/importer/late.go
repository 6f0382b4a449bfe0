package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/wire"
)

// copyLate copies a time series or a capped collection, of whose changes no stream tells all,
// while nobody writes to the source: in its natural order, from the start after a kill.
func (im *Importer) copyLate(ctx context.Context, d *definition) error {
	p, err := im.progressOf(ctx, d)
	if err != nil || p.Lookup("copied").Truthy() {
		return err
	}
	if err := im.from.again(ctx, func(c *client.Conn) error { return im.copyNatural(ctx, c, d) }); err != nil {
		return fmt.Errorf("copying %s: %w", d.name(), err)
	}
	return im.main.set(ctx, progressColl, bson.String(d.name()), new(bson.Builder).Bool("copied", true).Finish())
}

// progressOf returns the progress of what is made at the cut-over. It is stored when the target has
// nothing of the name, and says from then on that the name is the import's.
func (im *Importer) progressOf(ctx context.Context, d *definition) (bson.Doc, error) {
	id := bson.String(d.name())
	docs, err := im.to.all(ctx, ownDB, new(bson.Builder).String("find", progressColl).OpenDoc("filter").Value("_id", id).Close().Finish())
	if err != nil {
		return nil, err
	}
	if len(docs) > 0 {
		return docs[0], nil
	}
	if err := im.unoccupied(ctx, d); err != nil {
		return nil, err
	}
	return bson.Empty, im.main.set(ctx, progressColl, id, new(bson.Builder).Bool("copied", false).Finish())
}

// copyNatural makes a collection anew, and copies it by one cursor.
func (im *Importer) copyNatural(ctx context.Context, c *client.Conn, d *definition) error {
	have, err := named(ctx, im.to, d.db, d.coll)
	if err != nil {
		return lasting{err}
	}
	if have != nil {
		if err := im.drop(ctx, have); err != nil {
			return lasting{err}
		}
	}
	if _, err := im.ensure(ctx, d.held(im.to.mayfly)); err != nil {
		return lasting{err}
	}
	var docs []bson.Doc
	size := 0
	flush := func() error {
		body := new(bson.Builder).String("insert", d.coll).Bool("ordered", true)
		if d.kind != kindTimeseries {
			im.unchecked(body)
		}
		reply, err := im.main.write(ctx, d.db, body.Finish(), wire.NewSequence("documents", docs...))
		if err != nil {
			return lasting{err}
		}
		for _, e := range writeErrors(reply) {
			return lasting{fmt.Errorf("the target refuses a document: %w", e.Error)}
		}
		im.copiedDocuments.Add(int64(len(docs)))
		n := size
		docs, size = nil, 0
		if err := waitPace(ctx, im.pace, n); err != nil {
			return lasting{err}
		}
		return nil
	}
	err = each(ctx, c, d.db, new(bson.Builder).String("find", d.coll).Finish(), func(doc bson.Doc) error {
		docs, size = append(docs, doc), size+len(doc)
		if len(docs) < im.o.batch && size < batchBytes {
			return nil
		}
		return flush()
	})
	if err == nil && len(docs) > 0 {
		err = flush()
	}
	return err
}

// compareLate compares what copyLate has copied.
func (im *Importer) compareLate(ctx context.Context, d *definition, found *differences) (v verified, err error) {
	if v, err = sumOf(ctx, im.from, d); err != nil {
		return v, err
	}
	other, err := sumOf(ctx, im.to, d)
	if err == nil && other != v {
		if found.n++; len(found.named) < maxDifferences {
			found.named = append(found.named, fmt.Sprintf("%s: the source has %d documents, and the target %d others", d.name(), v.documents, other.documents))
		}
	}
	return v, err
}

// sumOf sums the documents of a time series or a capped collection: the latter in their order, the
// former in any order of measurements and of their fields, which buckets do not keep.
func sumOf(ctx context.Context, e *end, d *definition) (v verified, err error) {
	err = e.again(ctx, func(c *client.Conn) error {
		v = verified{}
		ordered, total := sha256.New(), new(big.Int)
		err := each(ctx, c, d.db, new(bson.Builder).String("find", d.coll).Finish(), func(doc bson.Doc) error {
			v.documents++
			if d.kind != kindTimeseries {
				ordered.Write(doc)
				return nil
			}
			sum := sha256.Sum256(byName(doc))
			total.Add(total, new(big.Int).SetBytes(sum[:]))
			return nil
		})
		if d.kind == kindTimeseries {
			sum := sha256.Sum256(total.Bytes())
			v.sum = hex.EncodeToString(sum[:])
		} else {
			v.sum = hex.EncodeToString(ordered.Sum(nil))
		}
		return err
	})
	return v, err
}

// byName returns a document with its fields in the order of their names.
func byName(d bson.Doc) bson.Doc {
	type field struct {
		name  string
		value bson.Value
	}
	var all []field
	for name, v := range d.All() {
		all = append(all, field{name, v})
	}
	slices.SortStableFunc(all, func(a, b field) int { return strings.Compare(a.name, b.name) })
	b := new(bson.Builder).Reset(nil)
	for _, f := range all {
		b.Value(f.name, f.value)
	}
	return b.Finish()
}
