package expire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestPass holds that who asks for a pass is told what has failed in it, and does not wait for a
// monitor that has stopped.
func TestPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		w.must(parse(t, `{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0}]}`))
		w.insertAt(0, 5, time.Now().UnixMilli())
		if err := w.d.BlockUserWrites(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := w.m.Pass(t.Context()); !mongoerr.Is(err, mongoerr.UserWritesBlocked) || w.count("c") != 5 {
			t.Errorf("writes are blocked, %d documents are left, and the error is %v", w.count("c"), err)
		}
		w.d.UserWrites.Unblock()
		if err := w.m.Pass(t.Context()); err != nil || w.count("c") != 0 {
			t.Errorf("%d documents are left: %v", w.count("c"), err)
		}
		w.m.Stop()
		if err := w.m.Pass(t.Context()); !mongoerr.Is(err, mongoerr.ShutdownInProgress) {
			t.Errorf("the monitor has stopped, and the error is %v", err)
		}
		w.m.Start()
		if err := w.m.Pass(t.Context()); err != nil {
			t.Errorf("the monitor runs again: %v", err)
		}
	})
}
