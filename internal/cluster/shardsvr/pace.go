package shardsvr

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// pace bounds how many bytes of documents are copied per second.
type pace struct{ bytesPerSecond atomic.Int64 } // 0: no bound

// paceLook is how often it is looked whether the bound has changed during a wait.
const paceLook = time.Second

// limit takes the bound of a request: bytesPerSecond, 0 and none for no bound.
func (p *pace) limit(body bson.Doc) {
	n, _ := bson.ExactInt64(body.Lookup("bytesPerSecond"))
	p.bytesPerSecond.Store(max(n, 0))
}

// wait waits until so many bytes, which were asked for at begun, are within the bound; false if
// ctx ended before.
func (p *pace) wait(ctx context.Context, begun time.Time, bytes int) bool {
	for {
		n := p.bytesPerSecond.Load()
		if n == 0 {
			return ctx.Err() == nil
		}
		left := time.Until(begun.Add(time.Duration(float64(bytes) / float64(n) * float64(time.Second))))
		if left <= 0 {
			return ctx.Err() == nil
		}
		timer := time.NewTimer(min(left, paceLook))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}
