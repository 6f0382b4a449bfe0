package shardsvr

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// removePause is how long decisions that may be forgotten are gathered, to be removed in
	// one unit: nobody waits for that.
	removePause = 100 * time.Millisecond
	// maxRemoved bounds the decisions that one unit removes.
	maxRemoved = 1000
)

// removal is decisions that are removed in one unit, by whoever has added the first of them.
type removal struct {
	birth catalog.Evaluation // the term of the machines
	ids   []transactionID
	ended chan struct{} // closed when err is known
	err   error
}

// removeDecision removes the decision of a transaction, together with others of the same
// term, and tries again as long as that lasts: a document that stays has the next primary tell
// all participants once more. Errors: that of the last attempt, the cause of ctx's end.
func (s *Shard) removeDecision(ctx context.Context, id transactionID, birth catalog.Evaluation) error {
	t := &s.coordinations
	t.Lock()
	r := t.next
	first := r == nil || r.birth != birth || len(r.ids) >= maxRemoved
	if first {
		r = &removal{birth: birth, ended: make(chan struct{})}
		t.next = r
	}
	r.ids = append(r.ids, id)
	t.Unlock()
	if !first {
		select {
		case <-r.ended:
			return r.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer close(r.ended)
	r.err = client.Sleep(ctx, removePause)
	t.Lock()
	if t.next == r {
		t.next = nil
	}
	t.Unlock()
	if r.err != nil {
		return r.err
	}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		if r.err = s.removeDecisions(ctx, r.ids); r.err == nil || s.evaluation() != birth {
			return r.err
		}
		if err := client.Sleep(ctx, pause); err != nil {
			return r.err
		}
	}
}

// removeDecisions removes decisions in one unit.
func (s *Shard) removeDecisions(ctx context.Context, ids []transactionID) error {
	coll := s.cat.Lookup(coordinators)
	if coll == nil {
		return nil
	}
	return s.cat.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		u.Storage().Frees()
		for _, id := range ids {
			key, old, err := u.LockID(ctx, coll, bson.Document(id.key()))
			if err != nil {
				return err
			}
			if old == nil {
				continue
			}
			if err := u.Delete(ctx, coll, key, old); err != nil {
				return err
			}
		}
		return nil
	})
}
