package importer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/wire"
)

// cutOver is what comes behind the last event, while nobody writes to the source: what no stream
// tells of is copied, and all is compared. Each step does no harm when it is done twice.
func (im *Importer) cutOver(ctx context.Context) error {
	if im.from.replicated() {
		t, err := im.now(ctx)
		if err != nil {
			return err
		}
		im.applied.Observe(t) // what is read is not older, on whatever member
	}
	all, err := list(ctx, im.from)
	if err != nil {
		return err
	}
	if err := im.rowsAre(all); err != nil {
		return err
	}
	found := &differences{}
	for _, d := range all {
		var v verified
		switch {
		case d.kind == kindView:
			continue
		case d.late():
			if err := im.copyLate(ctx, d); err != nil {
				return err
			}
			v, err = im.compareLate(ctx, d, found)
		default:
			if _, err := im.ensure(ctx, d.held(im.to.mayfly)); err != nil {
				return err
			}
			if v, err = im.compare(ctx, d.db, d.coll, found); err == nil {
				err = im.counted(ctx, d, v, found)
			}
		}
		if err != nil {
			return fmt.Errorf("comparing %s: %w", d.name(), err)
		}
		im.o.Tell(fmt.Sprintf("%s: %d documents, SHA-256 %s", d.name(), v.documents, v.sum))
	}
	if found.n > 0 {
		for _, line := range found.named {
			im.o.Tell(line)
		}
		return fmt.Errorf("%w: %d documents differ. Was the source written to?", ErrDiffers, found.n)
	}
	return im.enter(ctx, phaseFinish)
}

// followAgain goes back from a cut-over that has failed, or whose importer was killed, to following:
// somebody may have ended the block of the source meanwhile. What no stream tells of is copied anew.
func (im *Importer) followAgain(ctx context.Context) error {
	docs, err := im.to.all(ctx, ownDB, new(bson.Builder).String("find", progressColl).OpenDoc("filter").Bool("copied", true).Close().Finish())
	if err != nil {
		return err
	}
	for _, d := range docs {
		id := d.Lookup("_id")
		if id.Type != bson.TypeString {
			continue
		}
		if err := im.main.set(ctx, progressColl, id, new(bson.Builder).Bool("copied", false).Finish()); err != nil {
			return err
		}
	}
	return im.enter(ctx, phaseCopy)
}

// untouched returns an error if the source was written to since the last event that was applied:
// an importer before this one was killed behind its verification, and the target's rules may be at
// work already, so that nothing can be applied any more.
func (im *Importer) untouched(ctx context.Context) error {
	if im.state.block {
		if err := im.block(ctx, true); err != nil {
			return err
		}
	}
	t, err := im.now(ctx)
	if err != nil {
		return err
	}
	s := &stream{e: im.from, token: im.state.token}
	defer s.close()
	for reached := false; !reached; {
		events, err := s.read(ctx)
		if err != nil {
			return err
		}
		reached = s.reached(events, t)
		for _, event := range events {
			if !ownDatabase(event) {
				return fmt.Errorf("%w: the source was written to after all was compared (%s, %s)", ErrDiffers, kindOf(event), event.Lookup("ns"))
			}
		}
	}
	return nil
}

// counted counts the source's documents in another way than they were read: on two shards there may
// be one _id twice, of which a scan behind an _id sees one.
func (im *Importer) counted(ctx context.Context, d *definition, v verified, found *differences) error {
	b := new(bson.Builder).String("aggregate", d.coll).OpenArray("pipeline").OpenDoc("0").String("$count", "n").Close().Close().OpenDoc("cursor").Close()
	if concern := im.sourceConcern(); concern != nil {
		b.Doc("readConcern", concern)
	}
	docs, err := im.from.all(ctx, d.db, b.Finish())
	if err != nil {
		return err
	}
	n := int64(0)
	if len(docs) > 0 {
		n = bson.ClampToInt64(docs[0].Lookup("n"))
	}
	if n != v.documents {
		if found.n++; len(found.named) < maxDifferences {
			found.named = append(found.named, fmt.Sprintf("%s: the source has %d documents, of which %d were read by their _id: on several shards some have the same one, and the target can have it once", d.name(), n, v.documents))
		}
	}
	return nil
}

// rowsAre returns an error if the source's collections are not those that were copied.
func (im *Importer) rowsAre(all []*definition) error {
	known := map[bson.UUID]*row{}
	for _, r := range im.rows.all() {
		known[r.uuid] = r
	}
	for _, d := range all {
		if d.kind != kindCollection || d.late() {
			continue
		}
		if r := known[d.uuid]; r == nil || r.name() != d.name() {
			return fmt.Errorf("%w: %s was made or renamed at the source behind the last event", ErrDiffers, d.name())
		}
		delete(known, d.uuid)
	}
	for _, r := range known {
		return fmt.Errorf("%w: %s was dropped at the source behind the last event", ErrDiffers, r.name())
	}
	return nil
}

// finish makes the target what the source is: unique indexes, views, users and roles, and what
// expires, which removes documents from then on.
func (im *Importer) finish(ctx context.Context) error {
	all, err := list(ctx, im.from)
	if err != nil {
		return err
	}
	if err := im.rowsAre(all); err != nil {
		return err
	}
	if err := im.accounts(ctx); err != nil {
		return err
	}
	for _, views := range []bool{false, true} { // views are on what is there
		for _, d := range all {
			if (d.kind == kindView) != views {
				continue
			}
			if d.kind == kindView || d.late() {
				if _, err := im.progressOf(ctx, d); err != nil {
					return err
				}
			}
			if _, err := im.ensure(ctx, d); err != nil {
				return err
			}
		}
	}
	if err := im.enter(ctx, phaseDone); err != nil {
		return err
	}
	im.o.Tell("The target is equal to the source. It removes what expires from now on.")
	return nil
}

// accounts copies users and roles with what their passwords are checked by, where the source shows
// and the target takes them. What the target has stays.
func (im *Importer) accounts(ctx context.Context) (err error) {
	merge := new(bson.Builder).Int32("_mergeAuthzCollections", 1)
	some := false
	defer func() {
		for _, temp := range []string{"temproles", "tempusers"} {
			if !some {
				return
			}
			if _, dropped := im.ddl(ctx, "admin", new(bson.Builder).String("drop", temp).Finish()); dropped != nil && !mongoerr.Is(dropped, mongoerr.NamespaceNotFound) {
				err = errors.Join(err, dropped)
			}
		}
	}()
	for _, kind := range []struct{ from, temp, argument string }{
		{"system.roles", "temproles", "tempRolesCollection"}, {"system.users", "tempusers", "tempUsersCollection"},
	} {
		docs, err := im.from.all(ctx, "admin", new(bson.Builder).String("find", kind.from).Finish())
		if mongoerr.Is(err, mongoerr.Unauthorized) {
			im.o.Tell("Users and roles are not copied: the source does not show " + kind.from + " to this user (a role that may is backup).")
			return nil
		}
		if err != nil {
			return err
		}
		if len(docs) == 0 {
			continue
		}
		if err := im.temporary(ctx, kind.temp, docs); err != nil {
			if mongoerr.Is(err, mongoerr.Unauthorized) {
				im.o.Tell("Users and roles are not copied, as the target does not take them (a role that may is restore): " + names(docs))
				return nil
			}
			return err
		}
		some = true
		merge.String(kind.argument, "admin."+kind.temp)
	}
	if !some {
		return nil
	}
	_, err = im.ddl(ctx, "admin", merge.String("db", "").Bool("drop", false).Finish())
	if mongoerr.Is(err, mongoerr.Unauthorized) {
		im.o.Tell("Users and roles are not copied: the target does not take them (a role that may is restore).")
		err = nil
	}
	return err
}

// temporary puts users or roles where _mergeAuthzCollections takes them from, as mongorestore does.
func (im *Importer) temporary(ctx context.Context, coll string, docs []bson.Doc) error {
	if _, err := im.ddl(ctx, "admin", new(bson.Builder).String("drop", coll).Finish()); err != nil && !mongoerr.Is(err, mongoerr.NamespaceNotFound) {
		return err
	}
	reply, err := im.main.write(ctx, "admin", new(bson.Builder).String("insert", coll).Finish(), wire.NewSequence("documents", docs...))
	if err != nil {
		return err
	}
	for _, e := range writeErrors(reply) {
		return e.Error
	}
	return nil
}

// names are the users or roles of documents.
func names(docs []bson.Doc) string {
	var all []string
	for _, d := range docs {
		if v := d.Lookup("_id"); v.Type == bson.TypeString {
			all = append(all, v.Str())
		}
	}
	return strings.Join(all, ", ")
}
