package importer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/wire"
)

// Options are those of an import.
type Options struct {
	From, To *client.URI
	// Once copies a source whose writes have stopped, and does not follow it.
	Once bool
	// Block blocks the writes at the source: at once, or at the cut-over.
	Block bool
	// CutOver asks for the cut-over as soon as the copy is made.
	CutOver bool
	// ClockAhead allows a target whose clock is ahead of the source's.
	ClockAhead bool
	// Parallel is how many collections are copied at a time, 1 to MaxParallel.
	Parallel int
	// Rate is how many bytes of documents are copied in a second, 0 for no bound. Events and the
	// comparison have none.
	Rate int64
	// Restart drops what the import has made, and begins anew.
	Restart bool
	// Tell gets a line of progress.
	Tell func(line string)

	batch int // documents of a batch of the copy; 0 for batchDocuments
}

// The default of Options.Parallel, and the most that it may be.
const (
	DefaultParallel = 4
	MaxParallel     = 12
)

// maxAhead is how far a target's clock may be ahead of the source's: it removes earlier.
const maxAhead = time.Second

// ErrDiffers ends an import whose target is not equal to its source.
var ErrDiffers = errors.New("the target is not equal to the source")

// Importer is one run of an import.
type Importer struct {
	o        Options
	from, to *end

	state         *state
	hold          *hold
	main, applier *writer
	workers       []*writer
	rows          rows
	// applied is the time of the newest event that was applied, or is being.
	applied         client.Clock
	copiedDocuments atomic.Int64
	pace            *rate.Limiter
}

// Run imports, from where an importer before has ended. It returns when the import is done.
// Errors: ErrDiffers; the servers'; the cause of ctx.
func Run(ctx context.Context, o Options) error {
	if o.batch == 0 {
		o.batch = batchDocuments
	}
	im := &Importer{o: o, pace: newPace(o.Rate)}
	if err := im.open(ctx); err != nil {
		return err
	}
	defer im.from.close()
	defer im.to.close()
	if err := im.fit(); err != nil {
		return err
	}
	if err := im.claim(ctx); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	var keeping errgroup.Group
	keeping.Go(func() error { im.keep(ctx, end); return nil })
	err := im.proceed(ctx)
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errOvertaken) {
		err = cause
	}
	end(nil)
	return errors.Join(err, keeping.Wait())
}

func (im *Importer) open(ctx context.Context) (err error) {
	if im.from, err = openEnd(ctx, "the source", im.o.From); err != nil {
		return err
	}
	if im.to, err = openEnd(ctx, "the target", im.o.To); err != nil {
		im.from.close()
	}
	return err
}

// fit returns why these two ends cannot be a source and a target.
func (im *Importer) fit() error {
	switch ahead := im.to.ahead - im.from.ahead; {
	case im.to.router:
		return errors.New("a router is no target of an import yet: only replica sets are")
	case im.to.set == "":
		return errors.New("the target has to be a replica set, as only those refuse the late writes of an importer that is dead: mayfly serve --replSet NAME --initiate makes one of a single server")
	case !im.from.replicated() && !im.o.Once:
		return errors.New("a standalone has no change stream: stop its writes, and import with --once")
	case ahead > maxAhead && !im.o.ClockAhead:
		return fmt.Errorf("the target's clock is %s ahead of the source's, and it would remove documents so much earlier: set it right, or say --clockAhead", ahead.Round(time.Millisecond))
	}
	return nil
}

// proceed does what is left to do.
func (im *Importer) proceed(ctx context.Context) error {
	if im.o.Restart {
		if err := im.restart(ctx); err != nil {
			return err
		}
	}
	if im.state.phase == phaseDone {
		im.o.Tell("This import is done already.")
		return nil
	}
	if im.o.Once && im.o.Block {
		if err := im.block(ctx, true); err != nil {
			return err
		}
	}
	if im.state.phase == phaseDefine {
		if err := im.define(ctx); err != nil {
			return err
		}
	} else if err := im.readRows(ctx); err != nil {
		return err
	}
	verified := false
	if im.state.phase == phaseCutOver && !im.o.Once {
		if err := im.followAgain(ctx); err != nil {
			return err
		}
	}
	if im.state.phase == phaseCopy {
		if err := im.copyPhase(ctx); err != nil {
			return err
		}
		if err := im.enter(ctx, phaseCutOver); err != nil {
			return err
		}
	}
	if im.state.phase == phaseCutOver {
		if err := im.cutOver(ctx); err != nil {
			if errors.Is(err, ErrDiffers) && !im.o.Once { // whoever runs it again is to say when to cut over
				err = errors.Join(err, im.store(ctx, new(bson.Builder).Bool("cutOver", false).Bool("block", false).Finish()))
			}
			return err
		}
		verified = true
	}
	if !verified && !im.o.Once {
		if err := im.untouched(ctx); err != nil {
			return err
		}
	}
	return im.finish(ctx)
}

// copyPhase copies all rows, and follows the source meanwhile until the cut-over.
func (im *Importer) copyPhase(ctx context.Context) error {
	for _, r := range im.rows.all() {
		if r.made() {
			continue
		}
		if err := im.ensureRow(ctx, im.main, r); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	telling, end := context.WithCancel(ctx)
	var told errgroup.Group
	told.Go(func() error { im.tellProgress(telling); return nil })
	defer func() { end(); _ = told.Wait() }()
	if im.o.Once {
		return im.copyAll(ctx)
	}
	return im.follow(ctx)
}

// ensureRow makes a row's collection at the target as it is defined at the source now.
func (im *Importer) ensureRow(ctx context.Context, w *writer, r *row) error {
	d, err := ofUUID(ctx, im.from, r.db, r.uuid)
	if err != nil {
		return err
	}
	if d == nil { // dropped: the event is to come
		if r.made() {
			return nil
		}
		return im.unmake(ctx, r)
	}
	d.db, d.coll = r.db, r.coll
	return im.makeRow(ctx, w, r, d)
}

// unmake drops what an importer has made of a row and was killed before it had stored that.
func (im *Importer) unmake(ctx context.Context, r *row) error {
	have, err := named(ctx, im.to, r.db, r.coll)
	if err != nil || have == nil {
		return err
	}
	if other, err := im.foreign(ctx, have); err != nil || other {
		return err
	}
	return im.drop(ctx, have)
}

// foreign reports whether what has the name of a row that is not made is somebody else's: an importer
// makes collections, and copies documents only into one that a row names.
func (im *Importer) foreign(ctx context.Context, have *definition) (bool, error) {
	if have.kind != kindCollection {
		return true, nil
	}
	docs, err := im.to.all(ctx, have.db, only(new(bson.Builder).String("find", have.coll).Int32("limit", 1), have.uuid).Finish())
	return len(docs) > 0, err
}

// makeRow makes a row's collection at the target, or makes it be as defined.
func (im *Importer) makeRow(ctx context.Context, w *writer, r *row, d *definition) error {
	if !r.made() {
		have, err := named(ctx, im.to, d.db, d.coll)
		if err != nil {
			return err
		}
		if have != nil {
			if other, err := im.foreign(ctx, have); err != nil {
				return err
			} else if other {
				return occupied(d)
			}
		}
	}
	made, err := im.ensure(ctx, d.held(im.to.mayfly))
	if err != nil || r.made() {
		return err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	r.target = made.uuid
	return storeRow(ctx, w, r)
}

// progressEvery is the time between two lines of progress.
const progressEvery = 10 * time.Second

func (im *Importer) tellProgress(ctx context.Context) {
	for client.Sleep(ctx, progressEvery) == nil {
		line := fmt.Sprintf("%d documents copied", im.copiedDocuments.Load())
		if t := im.applied.Now(); t != 0 && !im.o.Once {
			line += fmt.Sprintf("; the stream is at %s", time.Unix(int64(t>>32), 0).UTC().Format(time.RFC3339))
		}
		im.o.Tell(line)
	}
}

// define lists the source's collections, stores their rows, and makes them at the target.
func (im *Importer) define(ctx context.Context) error {
	if err := im.forgetRows(ctx); err != nil {
		return err
	}
	all, err := im.listSource(ctx)
	if err != nil {
		return err
	}
	dbs := map[string]bool{}
	for _, d := range all {
		dbs[d.db] = true
	}
	im.o.Tell(fmt.Sprintf("The source shows %d collections and views of %d databases to this user.", len(all), len(dbs)))
	for _, d := range all {
		if err := im.unoccupied(ctx, d); err != nil {
			return err
		}
		if d.kind != kindCollection {
			continue
		}
		r := &row{uuid: d.uuid, db: d.db, coll: d.coll, void: d.late()}
		if err := storeRow(ctx, im.main, r); err != nil {
			return err
		}
		im.rows.put(r)
	}
	b := new(bson.Builder).String("phase", phaseCopy)
	if im.state.token != nil {
		b.Doc("token", im.state.token)
	}
	if err := im.store(ctx, b.Finish()); err != nil {
		return err
	}
	im.state.phase = phaseCopy
	return nil
}

// forgetRows deletes what an importer has stored that was killed before it had all: one by one, as
// only such writes have a number (invariant one-importer).
func (im *Importer) forgetRows(ctx context.Context) error {
	docs, err := im.to.all(ctx, ownDB, new(bson.Builder).String("find", progressColl).OpenDoc("projection").Int32("_id", 1).Close().Finish())
	if err != nil {
		return err
	}
	for _, d := range docs {
		_, err := im.main.write(ctx, ownDB, new(bson.Builder).String("delete", progressColl).Finish(), wire.NewSequence("deletes", deletion(d.Lookup("_id"))))
		if err != nil {
			return err
		}
	}
	return nil
}

// listSource lists the source's collections, as they are at the time at which the stream begins.
func (im *Importer) listSource(ctx context.Context) ([]*definition, error) {
	if im.o.Once {
		return list(ctx, im.from)
	}
	return im.listAtToken(ctx)
}

// unoccupied returns an error if the target has something of the name.
func (im *Importer) unoccupied(ctx context.Context, d *definition) error {
	have, err := named(ctx, im.to, d.db, d.coll)
	if err == nil && have != nil {
		err = occupied(d)
	}
	return err
}

func occupied(d *definition) error {
	return fmt.Errorf("the target has %s already, and nothing is merged", d.name())
}

// block blocks the writes at the source, or ends that.
func (im *Importer) block(ctx context.Context, on bool) error {
	_, err := im.from.run(ctx, "admin", new(bson.Builder).Int32("setUserWriteBlockMode", 1).Bool("global", on).Finish())
	if err != nil {
		return fmt.Errorf("blocking the source's writes: %w", err)
	}
	return nil
}
