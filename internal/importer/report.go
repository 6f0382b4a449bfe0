package importer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// tryColl is a collection of the import's own, made of each definition to see what the target says.
const tryColl = "try"

// DryRun tells what an import would do otherwise than the source has it, and imports nothing. Of
// each definition a collection is made in mayfly_import, and dropped again.
func DryRun(ctx context.Context, o Options) error {
	im := &Importer{o: o}
	if err := im.open(ctx); err != nil {
		return err
	}
	defer im.from.close()
	defer im.to.close()
	if err := im.fit(); err != nil {
		o.Tell(err.Error())
	}
	o.Tell(fmt.Sprintf("The target's clock is %s ahead of the source's: rules remove so much earlier there.", (im.to.ahead - im.from.ahead).Round(time.Millisecond)))
	if im.to.mayfly {
		o.Tell("Natural order is that of the windows of expiry, or of _id, at the target: who needs an order sorts.")
	}
	all, err := list(ctx, im.from)
	if err != nil {
		return err
	}
	for _, d := range all {
		if err := im.unoccupied(ctx, d); err != nil {
			o.Tell(err.Error())
		}
		if err := im.tryDefinition(ctx, d); err != nil {
			return err
		}
		if d.late() {
			stats, err := im.from.run(ctx, d.db, new(bson.Builder).String("collStats", d.coll).Finish())
			if err != nil {
				return err
			}
			o.Tell(fmt.Sprintf("%s: a time series or capped: %d bytes are copied while the source's writes are blocked", d.name(), bson.ClampToInt64(stats.Lookup("size"))))
		}
	}
	o.Tell(fmt.Sprintf("%d collections and views would be imported.", len(all)))
	return nil
}

// tryDefinition tells what of a definition the target refuses.
func (im *Importer) tryDefinition(ctx context.Context, d *definition) (err error) {
	drop := func() error {
		_, err := im.to.ddl(ctx, ownDB, new(bson.Builder).String("drop", tryColl).Finish())
		if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
			err = nil
		}
		return err
	}
	if err := drop(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, drop()) }()
	refused := func(what string, err error) error {
		var e *mongoerr.Error
		if !errors.As(err, &e) {
			return err
		}
		im.o.Tell(fmt.Sprintf("%s: the target refuses %s: %s (%d)", d.name(), what, e.Message, e.Code))
		return nil
	}
	if _, err := im.to.ddl(ctx, ownDB, new(bson.Builder).String("create", tryColl).Fields(without(d.options, "autoIndexId")).Finish()); err != nil {
		return refused("its options", err)
	}
	if d.kind == kindView {
		return nil
	}
	for _, spec := range d.indexes {
		body := new(bson.Builder).String("createIndexes", tryColl).OpenArray("indexes").Doc("0", spec).Close().Finish()
		if _, err := im.to.ddl(ctx, ownDB, body); err != nil {
			if err := refused("the index "+spec.Lookup("name").Str(), err); err != nil {
				return err
			}
		}
	}
	have, err := named(ctx, im.to, ownDB, tryColl)
	if err != nil || have == nil {
		return err
	}
	if err := same(have, d); err != nil {
		im.o.Tell(err.Error())
	}
	return nil
}
