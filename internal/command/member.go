package command

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/repl"
)

// AppendTopologyVersion writes topologyVersion: which run of the server this is, and
// how often its answer to hello has changed.
func (d *Dispatcher) AppendTopologyVersion(b *bson.Builder) {
	b.OpenDoc("topologyVersion").ObjectID("processId", d.ProcessID).Int64("counter", d.TopologyChanges()).Close()
}

// TopologyChanges counts how often the answer to hello has changed: on a standalone only
// when it quiesces.
func (d *Dispatcher) TopologyChanges() (n int64) {
	select {
	case <-d.Quiesced():
		n = 1
	default:
	}
	if d.Member == nil {
		return n
	}
	return n + d.Member.Changes()
}

// ClusterTime is $$CLUSTER_TIME for the expressions of op: the time of the set when it is
// first asked for, or since the last NextClusterTime; 0 on a server that is no member.
func (op *Op) ClusterTime() uint64 {
	if m := op.Dispatcher.Member; m != nil && op.clusterTime == 0 {
		op.clusterTime = uint64(m.Clock().Now())
	}
	return op.clusterTime
}

// NextClusterTime has the next statement of op ask for the time again.
func (op *Op) NextClusterTime() { op.clusterTime = 0 }

// lastWrite is the position of the operation's last entry in the set's log; the zero
// Position if there is none.
func (op *Op) lastWrite() repl.Position { return op.opTime.Last() }
