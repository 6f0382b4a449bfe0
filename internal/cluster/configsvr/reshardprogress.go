package configsvr

import (
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
)

// progress is what is known of a resharding, or a move, in progress.
type progress struct {
	mu    sync.Mutex
	began time.Time
	// blocked and unblocked are when the first donor was asked to block writes, and when the
	// last shard had been told of the end.
	blocked, unblocked time.Time
	state              string
	received           map[string]bson.Doc // the last reply of each recipient
}

// reshardStates has the states by the requests that begin them. (Manual: reshardCollection,
// "Monitor")
var reshardStates = map[string]string{
	"_shardsvrReshard": "initializing", step.LayResharded: "preparing-to-donate", "_shardsvrReshardReceive": "preparing-to-donate",
	"_shardsvrReshardReceived": "cloning", "_shardsvrBlock": "blocking-writes", "_shardsvrReshardOwn": "committing", "_shardsvrReshardAbort": "aborting",
}

// sent notes that a request is being sent.
func (p *progress) sent(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if state := reshardStates[name]; state != "" && (name != "_shardsvrReshardReceived" || p.blocked.IsZero()) {
		p.state = state
	}
	switch {
	case name == "_shardsvrBlock" && p.blocked.IsZero():
		p.blocked = time.Now()
	case name == step.DropChunks && p.unblocked.IsZero():
		p.unblocked = time.Now()
	}
}

// heard notes the reply of a recipient.
func (p *progress) heard(shard string, reply bson.Doc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.received == nil {
		p.received = map[string]bson.Doc{}
	}
	p.received[shard] = reply.Clone()
}

// block is how long writes have been blocked.
func (p *progress) blockLocked() time.Duration {
	switch {
	case p.blocked.IsZero():
		return 0
	case p.unblocked.IsZero():
		return time.Since(p.blocked)
	}
	return p.unblocked.Sub(p.blocked)
}

// report writes what a client hears of a resharding that has ended: how long writes were
// blocked.
func (p *progress) report(b *bson.Builder) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.Int64("writesBlockedMillis", p.blockLocked().Milliseconds())
}

func (p *progress) doc(host string, o *step.Operation) bson.Doc {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := time.Since(p.began)
	_, id := o.Args.Lookup("next").Binary()
	var next bson.UUID
	copy(next[:], id)
	b := new(bson.Builder).String("type", "op").String("host", host).String("desc", "ReshardingCoordinatorService "+next.String()).String("op", "command").String("ns", o.Namespace)
	b.OpenDoc("originatingCommand").String("reshardCollection", o.Namespace).Value("key", o.Args.Lookup("key")).Bool("unique", false).OpenDoc("collation").String("locale", "simple").Close().Close()
	b.Bool("active", true).Int64("secs_running", int64(took/time.Second)).Int64("totalOperationTimeElapsedSecs", int64(took/time.Second))
	var documents, bytes, left int64
	caughtUp := len(p.received) > 0
	for _, reply := range p.received {
		documents += bson.ClampToInt64(reply.Lookup("documents"))
		bytes += bson.ClampToInt64(reply.Lookup("bytes"))
		left = max(left, bson.ClampToInt64(reply.Lookup("secondsLeft")))
		caughtUp = caughtUp && reply.Has("behind")
	}
	state := p.state
	if state == "cloning" && caughtUp {
		state = "applying"
	}
	return b.Int64("remainingOperationTimeEstimatedSecs", left).Int64("documentsCopied", documents).Int64("bytesCopied", bytes).
		String("coordinatorState", state).Int64("writesBlockedMillis", p.blockLocked().Milliseconds()).String("opStatus", "running").Finish()
}
