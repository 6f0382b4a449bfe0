package bench

import (
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// indexedRow is the removal of what is due in a collection that was filled before it
// got the index by which it expires: from the moment that the index is made until
// nothing is left that is due.
const indexedRow = "expiryIndexed"

// indexer is a system that the row measures.
type indexer interface {
	expirer
	// makeDue makes the index by which documents expire.
	makeDue(ctx context.Context) error
}

// expiryIndexed measures the row indexedRow.
func (b *bench) expiryIndexed(ctx context.Context) error {
	type result struct {
		name           string
		indexed, whole time.Duration
		cpu            time.Duration // per document
	}
	var all []result
	for _, of := range []struct {
		name string
		s    indexer
	}{{"mayfly", b.server}, {"postgres", b.pg}} {
		s := of.s
		if of.name == "postgres" && b.pg == nil {
			continue
		}
		if err := fillDue(ctx, s, layout{}, liveDocuments, b.o.ExpiryDocuments); err != nil {
			return err
		}
		if b.pg != nil && of.name == "postgres" {
			if err := b.pg.exec(ctx, `VACUUM ANALYZE documents`, `CHECKPOINT`); err != nil {
				return err
			}
		}
		time.Sleep(quietReads)
		used, err := s.cpu()
		if err != nil {
			return err
		}
		begun := time.Now()
		if err := s.makeDue(ctx); err != nil {
			return err
		}
		r := result{name: of.name, indexed: time.Since(begun)}
		if err := s.expire(ctx, b.o.ExpiryDocuments, func(int64) {}); err != nil {
			return err
		}
		r.whole = time.Since(begun)
		after, err := s.cpu()
		if err != nil {
			return err
		}
		r.cpu = (after - used) / time.Duration(b.o.ExpiryDocuments)
		all = append(all, r)
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nfrom the index on %d due documents\tindex\tuntil none is left\tdocs/s\tcpu/doc\tthis/mayfly\t\n", b.o.ExpiryDocuments)
	for _, r := range all {
		fmt.Fprintf(w, "%s\t%.2fs\t%.2fs\t%.0f\t%s\t%.2f\t\n", r.name, r.indexed.Seconds(), r.whole.Seconds(),
			float64(b.o.ExpiryDocuments)/r.whole.Seconds(), micros(r.cpu), r.whole.Seconds()/all[0].whole.Seconds())
	}
	return w.Flush()
}

// makeDue starts the monitor first: it runs when a user makes an index.
func (m *mayfly) makeDue(ctx context.Context) error {
	if err := m.monitor(ctx, true); err != nil {
		return err
	}
	_, err := m.plain.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "due", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)})
	return err
}

func (p *postgres) makeDue(ctx context.Context) error {
	return p.exec(ctx, `CREATE INDEX ON documents (((doc->>'due')::bigint))`)
}
