package node

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var fsyncFields = command.NewFields("fsync", command.SafeBool("lock"),
	command.Int32("fsyncLockAcquisitionTimeoutMillis"))

const (
	// defaultFsyncWait is how long fsync with lock waits for running writes, in
	// milliseconds, and leastFsyncWait the least that a client can ask for: 0 and numbers
	// below it are taken, as mongod takes them, for a lock that is free.
	defaultFsyncWait = 90_000
	leastFsyncWait   = 100
)

// fsync makes everything durable; with lock: true it also blocks all writes
// until fsyncUnlock.
func (n *Node) fsync() *command.Command {
	return &command.Command{
		Name: "fsync", Flags: command.AdminOnly, Fields: fsyncFields,
		Help: "http://dochub.mongodb.org/core/fsynccommand", Run: n.runFsync,
	}
}

func (n *Node) runFsync(ctx context.Context, op *command.Op) error {
	if !op.Args.Bool("lock") {
		if err := n.flush(ctx); err != nil {
			return err
		}
		op.Reply.Int32("numFiles", 1)
		return nil
	}
	wait := time.Duration(max(op.Args.Int64Or("fsyncLockAcquisitionTimeoutMillis", defaultFsyncWait), leastFsyncWait)) * time.Millisecond
	limited, cancel := context.WithTimeoutCause(ctx, wait,
		mongoerr.New(mongoerr.LockTimeout, "Fsync lock timed out waiting for running writes"))
	defer cancel()
	count, err := op.Dispatcher.Gate.Lock(limited)
	if err != nil {
		return err
	}
	if err := n.flush(ctx); err != nil {
		_, _ = op.Dispatcher.Gate.Unlock()
		return err
	}
	if n.Process.PauseIdleCompaction != nil { // a backup of the files needs them to stay
		if err := n.Process.PauseIdleCompaction(limited); err != nil {
			_, _ = op.Dispatcher.Gate.Unlock()
			return err
		}
	}
	op.Reply.String("info", "now locked against writes, use db.fsyncUnlock() to unlock").Int64("lockCount", count).
		String("seeAlso", "http://dochub.mongodb.org/core/fsynccommand")
	return nil
}

func (n *Node) flush(ctx context.Context) error {
	if n.Process.Flush == nil {
		return nil
	}
	return n.Process.Flush(ctx)
}
