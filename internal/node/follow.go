package node

import (
	"context"
	"time"
)

// followEvery is how late at most a member notices what others have written about
// users, roles and parameters of the set.
const followEvery = time.Second

// Follow keeps the node's caches of stored documents (users and roles, cluster
// parameters, default concerns, whether user writes are blocked) up to date with what the set's primary writes, until
// ctx ends. A standalone does not need it: only its own commands change these
// documents.
func (n *Node) Follow(ctx context.Context) {
	m := n.Dispatcher.Member
	if m == nil {
		return
	}
	ticker := time.NewTicker(followEvery)
	defer ticker.Stop()
	var seen uint64
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if at := m.Applied().Index; at != seen {
			seen = at
			n.refresh(ctx)
		}
	}
}

// refresh invalidates what may have changed in the set, and reads again what is in
// effect.
func (n *Node) refresh(ctx context.Context) {
	n.accounts.Changed()
	n.concerns.Store(nil)
	err := n.inside(ctx, func(context.Context) error {
		n.cluster.mu.Lock()
		defer n.cluster.mu.Unlock()
		n.cluster.values = nil
		return n.loadClusterParameters()
	})
	if err != nil && ctx.Err() == nil {
		n.Log.ErrorContext(ctx, "Cannot read the cluster parameters", "c", "CONTROL", "id", logParametersUnread, "error", err.Error())
	}
	n.followBlock(ctx)
}
