package node

import (
	"context"
	"math"
	"sync"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// compaction is the setting of autoCompact. The engine compacts in the
// background on its own, whatever the setting.
type compaction struct {
	sync.Mutex
	on       bool
	targetMB int64
}

// defaultCompactTargetMB is freeSpaceTargetMB where the client gives none.
const defaultCompactTargetMB = 20

var autoCompactFields = command.NewFields("autoCompact", command.Value(command.Bool("").Required()),
	command.SafeInt64("freeSpaceTargetMB").Min(1), command.Bool("runOnce"))

// autoCompact switches compaction in the background on and off.
func (n *Node) autoCompact() *command.Command {
	return &command.Command{
		Name: "autoCompact", Flags: command.AdminOnly, Fields: autoCompactFields,
		Help: "Initiates background compaction", Run: n.runAutoCompact,
	}
}

func (n *Node) runAutoCompact(_ context.Context, op *command.Op) error {
	on, target := op.Args.Bool("autoCompact"), op.Args.Int64Or("freeSpaceTargetMB", defaultCompactTargetMB)
	if on && target > math.MaxInt64>>20 {
		return mongoerr.New(mongoerr.BadValue, "freeSpaceTargetMB of %d is too large", target)
	}
	c := &n.compaction
	c.Lock()
	defer c.Unlock()
	if on && c.on && c.targetMB != target {
		return mongoerr.New(mongoerr.AlreadyInitialized,
			"background compaction is already active, disable it first to change its configuration")
	}
	c.on, c.targetMB = on && !op.Args.Bool("runOnce"), target
	return nil
}
