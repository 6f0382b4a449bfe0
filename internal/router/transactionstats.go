package router

import (
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// The ways to commit, by how many participants have written.
const (
	noShards = iota
	singleShard
	singleWriteShard
	readOnly
	twoPhaseCommit
	recoverWithToken
	commitKinds
)

var commitKindNames = [commitKinds]string{"noShards", "singleShard", "singleWriteShard", "readOnly", "twoPhaseCommit", "recoverWithToken"}

// commitKind counts the commits of one way.
type commitKind struct{ initiated, successful, micros atomic.Int64 }

func (k *commitKind) succeeded(begun time.Time) {
	k.successful.Add(1)
	k.micros.Add(time.Since(begun).Microseconds())
}

// transactionStats counts transactions.
type transactionStats struct {
	open, active                  atomic.Int64
	started, committed, aborted   atomic.Int64
	contacted, atCommit, requests atomic.Int64
	kinds                         [commitKinds]commitKind
}

// write appends what serverStatus shows. (Manual: "serverStatus.transactions", on mongos.)
func (s *transactionStats) write(b *bson.Builder) {
	open, active := s.open.Load(), s.active.Load()
	b.Int64("currentOpen", open).Int64("currentActive", active).Int64("currentInactive", max(open-active, 0))
	b.Int64("totalStarted", s.started.Load()).Int64("totalCommitted", s.committed.Load()).Int64("totalAborted", s.aborted.Load())
	b.Int64("totalContactedParticipants", s.contacted.Load()).Int64("totalParticipantsAtCommit", s.atCommit.Load()).Int64("totalRequestsTargeted", s.requests.Load())
	b.OpenDoc("commitTypes")
	for i, name := range commitKindNames {
		k := &s.kinds[i]
		b.OpenDoc(name).Int64("initiated", k.initiated.Load()).Int64("successful", k.successful.Load()).Int64("successfulDurationMicros", k.micros.Load()).Close()
	}
	b.Close()
}
