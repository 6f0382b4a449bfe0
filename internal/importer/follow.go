package importer

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflydb/mayfly/internal/bson"
)

// askEvery is the time between two looks whether somebody has asked for the cut-over, and between
// two times that the token of a stream without events is stored.
const askEvery = 250 * time.Millisecond

// follow copies the rows, and applies the source's events meanwhile and then, until the cut-over:
// it returns when all that was written to the source before the block was applied.
func (im *Importer) follow(ctx context.Context) error {
	if im.o.CutOver {
		if err := im.store(ctx, new(bson.Builder).Bool("cutOver", true).Bool("block", im.o.Block || im.state.block).Finish()); err != nil {
			return err
		}
	}
	im.applied.Observe(tokenTime(im.state.token))
	var copied atomic.Bool
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() error {
		if err := im.copyAll(ctx); err != nil {
			return err
		}
		copied.Store(true)
		return nil
	})
	work.Go(func() error { return im.applyAll(ctx, &copied) })
	return work.Wait()
}

// applyAll applies the source's events.
func (im *Importer) applyAll(ctx context.Context, copied *atomic.Bool) error {
	s := &stream{e: im.from, token: im.state.token}
	defer s.close()
	var until uint64 // the time at which the source's writes have stopped, 0 while they have not
	var looked, stored time.Time
	for reached := false; !reached; {
		events, err := s.read(ctx)
		if err != nil {
			return err
		}
		reached = until != 0 && s.reached(events, until)
		if err := im.applyEvents(ctx, events); err != nil {
			return err
		}
		if len(events) > 0 || time.Since(stored) > askEvery {
			if err := im.storeToken(ctx, s.token); err != nil {
				return err
			}
			stored = time.Now()
		}
		if until != 0 || !copied.Load() || time.Since(looked) < askEvery {
			continue
		}
		looked = time.Now()
		if until, err = im.stopSource(ctx); err != nil {
			return err
		}
	}
	return im.storeToken(ctx, s.token)
}

// storeToken stores that all before a token was applied (invariant token-behind).
func (im *Importer) storeToken(ctx context.Context, token bson.Doc) error {
	return im.setState(ctx, im.applier, new(bson.Builder).Doc("token", token).Finish())
}

// stopSource blocks the source's writes if somebody has asked for the cut-over, and returns a time
// behind the last of them; 0 if nobody has.
func (im *Importer) stopSource(ctx context.Context) (uint64, error) {
	s, err := readState(ctx, im.to)
	if err == nil && (s == nil || s.importer != im.state.importer) {
		err = errOvertaken
	}
	if err != nil || !s.cutOver {
		return 0, err
	}
	if s.block {
		if err := im.block(ctx, true); err != nil {
			return 0, err
		}
		im.o.Tell("The source's writes are blocked.")
	}
	return im.now(ctx)
}
