package nemesis

import (
	"context"
	"testing"

	"github.com/mayflydb/mayfly/e2e/histories"
	"github.com/mayflydb/mayfly/internal/sim"
)

// transactionClients append to lists and read them.
const transactionClients = 4

// transactions has clients append to lists and read them in multi-document transactions.
type transactions struct {
	histories.ListTransactions
	failures failures
}

func newTransactions(s *set) *transactions {
	c := s.connect()
	x := &transactions{ListTransactions: histories.ListTransactions{Client: c, Coll: c.Database("app").Collection("transactions"), Keys: 5, Most: 250, Patience: opTimeout}, failures: failures{}}
	x.Failed = x.failures.note
	x.Begin()
	return x
}

func (x *transactions) run(ctx context.Context) {
	clients(ctx, transactionClients, func(ctx context.Context, _ int) { x.Transact(ctx) })
}

func (x *transactions) check(t *testing.T) {
	done := x.Check(t.Context(), func(group int, what any) { t.Errorf("transactions on lists of group %d: %v", group, what) })
	t.Logf("transactions: %d committed, %d aborted, %d unknown; errors: %v", done[sim.Committed], done[sim.Aborted], done[sim.Unknown], x.failures)
	if done[sim.Committed] == 0 {
		t.Error("transactions: none was committed")
	}
}
