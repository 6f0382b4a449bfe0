package command

import (
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// quiescing is that the server will stop: hello says so, and all else goes on. The zero
// quiescing says that it will not.
type quiescing struct {
	once  sync.Once
	mu    sync.Mutex
	until time.Time     // the zero Time if it will not
	begun chan struct{} // closed when it begins
}

// Quiesce has hello answer from now on, and to those who wait, that the server stops at a
// time: clients then go elsewhere. (mongod's quiesce mode.)
func (d *Dispatcher) Quiesce(until time.Time) {
	begun := d.Quiesced()
	d.quiescing.mu.Lock()
	defer d.quiescing.mu.Unlock()
	if d.quiescing.until.IsZero() {
		d.quiescing.until = until
		close(begun)
	}
}

// Quiesced returns a channel that is closed when Quiesce is called.
func (d *Dispatcher) Quiesced() chan struct{} {
	q := &d.quiescing
	q.once.Do(func() { q.begun = make(chan struct{}) })
	return q.begun
}

// Stopping returns the error, 91, with which hello says that the server will stop, or nil.
func (d *Dispatcher) Stopping() error {
	d.quiescing.mu.Lock()
	until := d.quiescing.until
	d.quiescing.mu.Unlock()
	if until.IsZero() {
		return nil
	}
	b := new(bson.Builder)
	d.AppendTopologyVersion(b)
	b.Int64("remainingQuiesceTimeMillis", max(0, time.Until(until).Milliseconds()))
	return mongoerr.New(mongoerr.ShutdownInProgress, "The server is in quiesce mode and will shut down").WithExtra(b.Finish())
}

// WorksForOthers reports whether clients other than one, whose connections have been used
// for more than hello, are connected.
func (cs *Clients) WorksForOthers(than *Client) bool {
	for _, c := range cs.All() {
		if c != than && !c.Internal && c.worked.Load() {
			return true
		}
	}
	return false
}
