package importer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// restart drops what the import has made at the target, and forgets it. Nothing else is dropped: of
// each name that is stored the target had nothing before. Errors: an import whose target may be in
// use already.
func (im *Importer) restart(ctx context.Context) error {
	if im.state.phase == phaseFinish || im.state.phase == phaseDone {
		return errors.New("this import was verified already, and its target may be in use: --restart does not drop it")
	}
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
		if err := im.unmake(ctx, &row{db: db, coll: coll}); err != nil {
			return fmt.Errorf("dropping %s.%s: %w", db, coll, err)
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
	_, err = im.ddl(ctx, d.db, new(bson.Builder).String("drop", d.coll).Value("collectionUUID", uuidValue(r.target)).Finish())
	if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
		return nil
	}
	return err
}
