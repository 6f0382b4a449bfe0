package expire

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
)

// passage is the way of one piece of work through the gate that locks writes out.
// Where the work pauses it stands before the gate, so who locks it need not wait
// for more than a unit or a stretch of a sweep, and nothing goes while it is locked
// (invariant gated).
type passage struct {
	gate   *command.Gate
	inside bool
}

// enter goes through the gate, when it is open. leave must follow.
func (m *Monitor) enter(ctx context.Context) (*passage, error) {
	p := &passage{gate: &m.o.Dispatcher.Gate}
	return p, p.enter(ctx)
}

func (p *passage) enter(ctx context.Context) error {
	err := p.gate.Enter(ctx)
	p.inside = err == nil
	return err
}

// leave ends the work, wherever it stands.
func (p *passage) leave() {
	if p.inside {
		p.gate.Leave()
		p.inside = false
	}
}

// pause waits outside. Its error, that ctx has ended, leaves the work there.
func (p *passage) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 && p.gate.Locks() == 0 {
		return nil
	}
	p.leave()
	pause(ctx, d)
	return p.enter(ctx)
}
