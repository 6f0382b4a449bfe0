package expire

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
)

// gatePass takes one piece of work through the write gate. While the work pauses it is
// outside, so fsyncLock waits for no more than one unit or one step of a sweep, and
// nothing is removed while the gate is locked (invariant gated). A member that stops
// taking writes removes no more than that.
type gatePass struct {
	d      *command.Dispatcher
	inside bool
}

// enter waits until the gate is open, and enters. leave must follow. Errors: 10107
// where this member takes no writes.
func (m *Monitor) enter(ctx context.Context) (*gatePass, error) {
	p := &gatePass{d: m.o.Dispatcher}
	return p, p.enter(ctx)
}

func (p *gatePass) enter(ctx context.Context) error {
	err := p.d.Enter(ctx, "")
	p.inside = err == nil
	return err
}

// leave ends the pass, inside or outside.
func (p *gatePass) leave() {
	if p.inside {
		p.d.Gate.Leave()
		p.inside = false
	}
}

// pause waits outside. With an error (ctx has ended, or this member no longer takes
// writes) the work stays outside.
func (p *gatePass) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 && p.d.Gate.Locks() == 0 {
		return nil
	}
	p.leave()
	pause(ctx, d)
	return p.enter(ctx)
}
