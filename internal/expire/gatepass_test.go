package expire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
)

// TestGatePass has who locks writes out wait for a piece of work only up to its
// next pause, and the work for the end of the lock.
func TestGatePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &gatePass{d: &command.Dispatcher{}, removesFrom: "app"}
		if err := p.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		locked := make(chan struct{})
		go func() {
			defer close(locked)
			if _, err := p.d.Gate.Lock(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		time.AfterFunc(time.Minute, func() {
			select {
			case <-locked:
			default:
				t.Error("the lock waits for more than a pause")
			}
			if _, err := p.d.Gate.Unlock(); err != nil {
				t.Error(err)
			}
		})
		begun := time.Now()
		if err := p.pause(t.Context(), 0); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("the pause took %s: %v", time.Since(begun), err)
		}
		p.leave()
		if _, err := p.d.Gate.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
