package cosmos

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/schema"
)

// numbers are the sequences of a container, which all its definitions share.
// They never go back, even if the item with the greatest number is deleted and the
// server restarts: a ceiling is stored before numbers above the previous ceiling are
// handed out, and a restart continues from the ceiling.
type numbers struct {
	writes *catalog.Numbering // _lsn, of the collection
	items  catalog.Numbering  // _n

	ceiling   atomic.Int64 // numbers up to it may be handed out
	extending sync.Mutex
}

// numbersNamespace has the ceilings, by the container's resource id.
var numbersNamespace = schema.Namespace{DB: "config", Coll: "cosmos.numbers"}

const (
	// numbersBlock is how many numbers a ceiling is above those in use.
	numbersBlock = 1 << 20
	// numbersMargin is how far below the ceiling a new one is stored: more than all
	// concurrent requests take.
	numbersMargin = 1 << 18
)

// ensure stores a new ceiling when the numbers approach the old one.
func (c *container) ensure(ctx context.Context, g *registry) error {
	if max(c.writes.Latest(), c.items.Latest())+numbersMargin < c.ceiling.Load() {
		return nil
	}
	c.extending.Lock()
	defer c.extending.Unlock()
	top := max(c.writes.Latest(), c.items.Latest())
	if top+numbersMargin < c.ceiling.Load() {
		return nil
	}
	top += numbersBlock
	if err := g.put(ctx, numbersNamespace, new(bson.Builder).String("_id", c.rid).Int64("ceiling", top).Finish()); err != nil {
		return err
	}
	c.ceiling.Store(top)
	return nil
}

// findNumbers resumes the numbering of items and writes.
func (c *container) findNumbers(ctx context.Context, x *exec.Executor) error {
	stored := int64(0)
	if coll := x.Catalog.Lookup(numbersNamespace); coll != nil {
		filter := new(bson.Builder).String("_id", c.rid).Finish()
		err := find(ctx, x, coll, filter, nil, 1, func(d bson.Doc) (bool, error) {
			stored, _ = bson.ExactInt64(d.Lookup("ceiling"))
			return false, nil
		})
		if err != nil {
			return err
		}
	}
	for _, n := range []struct {
		field string
		into  *catalog.Numbering
	}{{fieldNumber, &c.items}, {fieldLSN, c.writes}} {
		greatest := stored
		sort := new(bson.Builder).Int32(n.field, -1).Finish()
		err := find(ctx, x, c.collection, bson.Empty, sort, 1, func(d bson.Doc) (bool, error) {
			last, _ := bson.ExactInt64(d.Lookup(n.field))
			greatest = max(stored, last)
			return false, nil
		})
		if err != nil {
			return err
		}
		n.into.Restart(greatest)
	}
	return nil
}
