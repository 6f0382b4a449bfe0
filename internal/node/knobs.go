package node

import (
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
)

// knobs are the server parameters of the commands of this package.
type knobs struct {
	noTableScan  *command.BoolParam
	allowDiskUse *command.BoolParam
}

func newKnobs(p *command.Params) *knobs {
	return &knobs{
		noTableScan:  p.Bool(command.BoolSpec{Name: "notablescan"}),
		allowDiskUse: p.Bool(command.BoolSpec{Name: "allowDiskUseByDefault", Default: true}),
	}
}

// lastTimestamp is the last value that timestamp gave.
var lastTimestamp atomic.Uint64

// timestamp returns the value for Timestamp(0, 0): the current second, and a
// number that makes it larger than any returned before.
func (n *Node) timestamp() uint64 {
	now := uint64(time.Now().Unix())<<32 | 1
	for {
		last := lastTimestamp.Load()
		next := max(now, last+1)
		if lastTimestamp.CompareAndSwap(last, next) {
			return next
		}
	}
}

// keepsZeroTimestamps reports whether a write command asks for Timestamp(0, 0) to
// be stored unchanged: mongorestore and mongoimport do.
func keepsZeroTimestamps(a *command.Args) bool { return a.Bool("bypassEmptyTsReplacement") }

// stamp returns the function that makes the values for Timestamp(0, 0) in what
// a command inserts; nil if they are stored unchanged.
func (n *Node) stamp(a *command.Args) func() uint64 {
	if keepsZeroTimestamps(a) {
		return nil
	}
	return n.timestamp
}
