package repl

import "context"

// SetChains makes effects of more than from bytes chains, with parts of so many.
func (m *Member) SetChains(from, part int) { m.chains.from, m.chains.part = from, part }

// HoldApplied keeps from the group that the last entry of a chain is applied, until resume.
func (m *Member) HoldApplied(ctx context.Context) (resume func(), err error) {
	held := make(chan struct{})
	return func() { close(held) }, m.replica.Do(ctx, func(g *Group) error {
		g.Beside = func(work func() error) {
			go func() {
				err := work()
				<-held
				m.replica.applied <- err
			}()
		}
		return nil
	})
}
