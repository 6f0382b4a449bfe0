package docfile

import (
	"context"
	"errors"
	"fmt"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
)

const (
	// insertDocuments and insertBytes bound what is inserted at once, and so held in memory.
	insertDocuments = 1000
	insertBytes     = 8 << 20
)

// Progress is told how many documents were copied.
type Progress func(documents int64)

// Export writes the documents of a collection or view, as a find by rp finds them. It returns how
// many there were.
func Export(ctx context.Context, c *client.Conn, rp client.ReadPreference, db, coll string, w *Writer, told Progress) (n int64, err error) {
	b := new(bson.Builder).String("find", coll)
	if rp.Mode != client.Primary {
		rp.Append(b)
	}
	cur, err := c.Open(ctx, db, b.Finish())
	if err != nil {
		return 0, err
	}
	for {
		doc, err := cur.Next(ctx)
		if doc == nil || err != nil {
			return n, err
		}
		if err := w.Write(doc); err != nil {
			return n, errors.Join(err, cur.Close(ctx))
		}
		n++
		told(n)
	}
}

// Import inserts the documents of a file into a collection. Those whose _id, or other unique key,
// is there already are kept: what stands there stays. On an error, what was inserted before it
// stays as well, and the error names the place.
func Import(ctx context.Context, c *client.Conn, db, coll string, r *Reader, told Progress) (inserted, kept int64, err error) {
	var docs []bson.Doc
	var places []string
	size := 0
	for {
		doc, readErr := r.Next()
		if len(docs) > 0 && (doc == nil || len(docs) == insertDocuments || size+len(doc) > insertBytes) {
			n, k, err := c.Insert(ctx, db, coll, docs, false)
			inserted, kept = inserted+n, kept+k
			told(inserted + kept)
			if refused := new(client.InsertError); errors.As(err, &refused) && refused.Index < len(places) {
				err = fmt.Errorf("%s: %w", places[refused.Index], err)
			}
			if err != nil {
				return inserted, kept, err
			}
			docs, places, size = docs[:0], places[:0], 0
		}
		if doc == nil || readErr != nil {
			return inserted, kept, readErr
		}
		docs, places, size = append(docs, doc), append(places, r.Place()), size+len(doc)
	}
}
