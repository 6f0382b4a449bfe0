package importer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/wire"
)

// A server forgets a session that nobody has used for half an hour, and takes any number in it then
// (invariant one-importer). So an importer writes into all of its sessions each keepEvery, and one
// that has not looked for lookEvery whether the target is still its own, as its machine slept, looks
// before it writes. Both together are less than half an hour.
const (
	keepEvery = 10 * time.Minute
	lookEvery = 5 * time.Minute
)

// hold is an importer's claim of the target.
type hold struct {
	importer int64
	mu       sync.Mutex
	seen     time.Time // when the claim was seen last, by the clock on the wall: others stand while a machine sleeps
}

func (h *hold) saw() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seen = time.Now().Round(0)
}

// look returns errOvertaken if another importer has claimed the target. It looks again after lookEvery.
func (h *hold) look(ctx context.Context, c *client.Conn) error {
	h.mu.Lock()
	since := time.Now().Round(0).Sub(h.seen)
	h.mu.Unlock()
	if since >= 0 && since < lookEvery {
		return nil
	}
	mine := false
	err := each(ctx, c, ownDB, new(bson.Builder).String("find", stateColl).OpenDoc("filter").Value("_id", stateID).Int64("importer", h.importer).Close().Finish(), func(bson.Doc) error {
		mine = true
		return nil
	})
	if err == nil && !mine {
		return lasting{errOvertaken}
	}
	if err == nil {
		h.saw()
	}
	return err
}

// run runs a command that writes to the target: each attempt looks first.
func (h *hold) run(ctx context.Context, to *end, db string, body bson.Doc, sequences ...wire.Sequence) (reply bson.Doc, err error) {
	err = to.again(ctx, func(c *client.Conn) error {
		if err := h.look(ctx, c); err != nil {
			return err
		}
		reply, err = c.Run(ctx, db, majority(new(bson.Builder).Fields(body)).Finish(), sequences...)
		return err
	})
	if err == nil {
		err = unconfirmed(reply)
	}
	return reply, err
}

// ddl runs a command at the target that has no session, and of which the caller knows that twice
// does no harm.
func (im *Importer) ddl(ctx context.Context, db string, body bson.Doc) (bson.Doc, error) {
	return im.hold.run(ctx, im.to, db, body)
}

// keep keeps the sessions known to the target until ctx ends, and ends the import if another
// importer has claimed it.
func (im *Importer) keep(ctx context.Context, end context.CancelCauseFunc) {
	for client.Sleep(ctx, keepEvery) == nil {
		if err := im.keepSessions(ctx); errors.Is(err, errOvertaken) {
			end(err)
			return
		} // else it is tried again, and the writes tell
	}
}

func (im *Importer) keepSessions(ctx context.Context) (err error) {
	for _, w := range append([]*writer{im.main, im.applier}, im.workers...) {
		err = errors.Join(err, w.set(ctx, stateColl, uuidValue(w.id), new(bson.Builder).Int64("importer", im.state.importer).Finish()))
	}
	return err
}

// setState sets fields of the state, if it is still this importer's.
func (im *Importer) setState(ctx context.Context, w *writer, fields bson.Doc) error {
	u := new(bson.Builder).OpenDoc("q").Value("_id", stateID).Int64("importer", im.state.importer).Close().OpenDoc("u").Doc("$set", fields).Close().Finish()
	reply, err := w.write(ctx, ownDB, new(bson.Builder).String("update", stateColl).Finish(), wire.NewSequence("updates", u))
	if err != nil {
		return err
	}
	for _, e := range writeErrors(reply) {
		return e.Error
	}
	if bson.ClampToInt64(reply.Lookup("n")) == 0 {
		return errOvertaken
	}
	return nil
}
