package expire

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
)

// passage is the way of one piece of work through the gate that locks writes out.
// Where the work pauses it stands before the gate, so who locks it need not wait
// for more than a unit or a stretch of a sweep, and nothing goes while it is locked
// (invariant gated). A member that takes no writes any more removes no more than that.
type passage struct {
	d      *command.Dispatcher
	inside bool
}

// enter goes through the gate, when it is open. leave must follow. Errors: 10107
// where this member takes no writes.
func (m *Monitor) enter(ctx context.Context) (*passage, error) {
	p := &passage{d: m.o.Dispatcher}
	return p, p.enter(ctx)
}

func (p *passage) enter(ctx context.Context) error {
	err := p.d.Enter(ctx, "")
	p.inside = err == nil
	return err
}

// leave ends the work, wherever it stands.
func (p *passage) leave() {
	if p.inside {
		p.d.Gate.Leave()
		p.inside = false
	}
}

// pause waits outside. Its error, that ctx has ended or this member takes no writes
// any more, leaves the work there.
func (p *passage) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 && p.d.Gate.Locks() == 0 {
		return nil
	}
	p.leave()
	pause(ctx, d)
	return p.enter(ctx)
}
