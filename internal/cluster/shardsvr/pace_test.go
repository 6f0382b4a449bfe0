package shardsvr

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestPace: batches come as far apart as the bound says, however long they took themselves, and
// another bound holds at once for a batch that is waited for.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		took := func(begun time.Time, bytes int) time.Duration {
			from := time.Now()
			if !p.wait(t.Context(), begun, bytes) {
				t.Error("it was not waited for")
			}
			return time.Since(from)
		}
		if d := took(time.Now(), 1<<30); d != 0 {
			t.Errorf("without a bound it waits %s", d)
		}
		p.limit(bson.MustParse(`{bytesPerSecond: 1000}`))
		if d := took(time.Now(), 3500); d != 3500*time.Millisecond {
			t.Errorf("3500 bytes at 1000 per second wait %s", d)
		}
		if d := took(time.Now().Add(-3*time.Second), 3500); d != 500*time.Millisecond {
			t.Errorf("with 3 s passed they wait %s", d)
		}
		time.AfterFunc(10500*time.Millisecond, func() { p.limit(bson.MustParse(`{}`)) })
		if d := took(time.Now(), 1_000_000); d != 11*time.Second {
			t.Errorf("the bound is gone after 10.5 s, and it waits %s", d)
		}
		p.limit(bson.MustParse(`{bytesPerSecond: 1}`))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if p.wait(ctx, time.Now(), 1_000_000) {
			t.Error("it does not end with its context")
		}
	})
}
