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
	d *command.Dispatcher
	// removesFrom is the database from which the work removes documents, "" for work that
	// removes none.
	removesFrom string
	pass        command.Pass // the zero one outside
}

// enter waits until the gate is open, and enters. leave must follow. Errors: 10107
// where this member takes no writes, 371 where user writes to the database from which
// the work removes documents are blocked.
func (m *Monitor) enter(ctx context.Context, removesFrom string) (*gatePass, error) {
	p := &gatePass{d: m.o.Dispatcher, removesFrom: removesFrom}
	return p, p.enter(ctx)
}

func (p *gatePass) enter(ctx context.Context) error {
	pass, err := p.d.Enter(ctx, "")
	if err == nil {
		err = p.d.MayWrite(p.removesFrom)
	}
	if err != nil {
		pass.Leave()
		return err
	}
	p.pass = pass
	return nil
}

// leave ends the pass, inside or outside.
func (p *gatePass) leave() {
	p.pass.Leave()
	p.pass = command.Pass{}
}

// pause waits outside. With an error (ctx has ended, or this member no longer takes
// writes) the work stays outside.
func (p *gatePass) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 && p.d.Gate.Locks() == 0 && p.d.MayWrite(p.removesFrom) == nil {
		return nil
	}
	p.leave()
	pause(ctx, d)
	return p.enter(ctx)
}
