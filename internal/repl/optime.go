package repl

import (
	"context"
	"sync"
)

// OpTime is the position of an operation's last write, which its write concern waits
// for. Safe for use by many goroutines.
type OpTime struct {
	mu   sync.Mutex
	last Position
}

// Last returns the position of the operation's last write; zero if it has written
// nothing.
func (o *OpTime) Last() Position {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

func (o *OpTime) note(at Position) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if at.Index > o.last.Index {
		o.last = at
	}
}

type opTimeKey struct{}

// WithOpTime makes commits under a context record their positions in o. The dispatcher
// of a member does this for each operation.
func WithOpTime(ctx context.Context, o *OpTime) context.Context {
	return context.WithValue(ctx, opTimeKey{}, o)
}

// noteOpTime notes a commit of the operation to which ctx belongs.
func noteOpTime(ctx context.Context, at Position) {
	if o, ok := ctx.Value(opTimeKey{}).(*OpTime); ok {
		o.note(at)
	}
}
