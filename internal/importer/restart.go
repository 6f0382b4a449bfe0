package importer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// restart drops what the import has made at the target, and forgets it. Nothing else is dropped.
// Errors: an import whose target may be in use already.
func (im *Importer) restart(ctx context.Context) error {
	if im.state.phase == phaseFinish || im.state.phase == phaseDone {
		return errors.New("this import was verified already, and its target may be in use: --restart does not drop it")
	}
	if im.state.phase != phaseDefine { // in which nothing is made yet: what has the names is somebody else's
		if err := im.dropMade(ctx); err != nil {
			return err
		}
	}
	im.rows.forget()
	if err := im.forgetRows(ctx); err != nil {
		return err
	}
	if err := im.store(ctx, new(bson.Builder).String("phase", phaseDefine).Null("token").Bool("cutOver", false).Bool("block", false).Finish()); err != nil {
		return err
	}
	im.state.phase, im.state.token, im.state.cutOver, im.state.block = phaseDefine, nil, false, false
	return nil
}

// dropMade drops the collections of all rows, and what was copied at a cut-over.
func (im *Importer) dropMade(ctx context.Context) error {
	if err := im.readRows(ctx); err != nil {
		return err
	}
	for _, r := range im.rows.all() {
		if err := im.dropRow(ctx, r); err != nil {
			return fmt.Errorf("dropping %s: %w", r.name(), err)
		}
	}
	late, err := im.to.all(ctx, ownDB, new(bson.Builder).String("find", progressColl).OpenDoc("filter").OpenDoc("_id").String("$type", "string").Close().Close().Finish())
	if err != nil {
		return err
	}
	for _, d := range late {
		db, coll, _ := strings.Cut(d.Lookup("_id").Str(), ".")
		have, err := named(ctx, im.to, db, coll)
		if err == nil && have != nil {
			err = im.drop(ctx, have)
		}
		if err != nil {
			return fmt.Errorf("dropping %s.%s: %w", db, coll, err)
		}
	}
	return nil
}

// dropRow drops a row's collection at the target, by its UUID: an importer that was killed may have
// renamed it.
func (im *Importer) dropRow(ctx context.Context, r *row) error {
	if !r.made() {
		return im.unmake(ctx, r)
	}
	d, err := ofUUID(ctx, im.to, r.db, r.target)
	if err != nil || d == nil {
		return err
	}
	return im.drop(ctx, d)
}

// drop drops a collection of the target: this one, and none that a successor makes.
func (im *Importer) drop(ctx context.Context, d *definition) error {
	_, err := im.ddl(ctx, d.db, only(new(bson.Builder).String("drop", d.coll), d.uuid).Finish())
	if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
		return nil
	}
	return err
}
