package command

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// BlockReasons are the reasons for which user writes can be blocked; their indexes are
// the numbers that serverStatus shows.
var BlockReasons = []string{"Unspecified", "ClusterToClusterMigrationInProgress", "DiskUseThresholdExceeded"}

// UserWrites is whether clients may write to their databases: all but admin, config and
// local. It changes by setUserWriteBlockMode, and when a member steps up. The zero
// UserWrites lets them.
type UserWrites struct {
	blocked atomic.Pointer[mongoerr.Error] // the error for clients; nil where they may
	reason  atomic.Int32
	counts  [3]atomic.Int64 // by reason: how often this process has begun to block
}

// indexBuilds are the names of the operations that build indexes in the gate, which may
// take long.
var indexBuilds = []string{"createIndexes", "CosmosIndexBuild"}

// BlockUserWrites blocks user writes: it ends index builds, and returns when no write
// runs that has not checked MayWrite since. Where ctx ends before, nothing has changed.
// There is one call at a time. reason is an index of BlockReasons.
func (d *Dispatcher) BlockUserWrites(ctx context.Context, reason int) error {
	was := d.UserWrites.Blocked() != nil
	d.UserWrites.Block(reason)
	for _, op := range d.Clients.Ops() {
		if op.Command == nil || !slices.Contains(indexBuilds, op.Command.Name) {
			continue
		}
		if err := d.MayWrite(op.DB); err != nil && !op.BypassesBlock() {
			op.kill(err)
		}
	}
	err := d.Gate.Drain(ctx)
	if err != nil && !was {
		d.UserWrites.Unblock()
	}
	return err
}

// Block has writes refused that check from now on. reason is an index of BlockReasons.
func (w *UserWrites) Block(reason int) {
	w.reason.Store(int32(reason))
	if w.blocked.Swap(mongoerr.New(mongoerr.UserWritesBlocked, "User writes blocked, reason: %s", BlockReasons[reason])) == nil {
		w.counts[reason].Add(1)
	}
}

// Unblock lets clients write.
func (w *UserWrites) Unblock() {
	w.blocked.Store(nil)
	w.reason.Store(0)
}

// Blocked returns the error for clients, 371, or nil where they may write.
func (w *UserWrites) Blocked() error {
	if e := w.blocked.Load(); e != nil {
		return e
	}
	return nil
}

// AppendStatus writes the fields of serverStatus about it.
func (w *UserWrites) AppendStatus(b *bson.Builder) {
	mode := int32(1) // allowed; 2 stands for blocked
	if w.Blocked() != nil {
		mode = 2
	}
	b.Int32("userWriteBlockMode", mode).Int32("userWriteBlockReason", w.reason.Load()).OpenDoc("userWriteBlockModeCounters")
	for i, name := range BlockReasons {
		b.Int64(name, w.counts[i].Load())
	}
	b.Close()
}

// ownDatabases are those that no block is about. None ("") is one of them.
var ownDatabases = []string{"", "admin", "config", localDB}

// MayWrite returns the error, 371, for a client whose writes to a database are blocked.
// Who calls it has passed the gate: then a block waits for the write.
func (d *Dispatcher) MayWrite(db string) error {
	if d.UserWrites.blocked.Load() == nil || slices.Contains(ownDatabases, db) {
		return nil
	}
	return d.UserWrites.Blocked()
}

// MayWrite is Dispatcher.MayWrite for op's client, which may have the privilege to write
// all the same. Where access is not controlled nobody has it.
func (op *Op) MayWrite(db string) error {
	err := op.Dispatcher.MayWrite(db)
	if err != nil && op.BypassesBlock() {
		return nil
	}
	return err
}

// BypassesBlock reports whether op's client may write where user writes are blocked: who has the
// privilege, and the parts of a cluster unless they pass on what a client without it has asked
// for.
func (op *Op) BypassesBlock() bool {
	if op.Client.Internal || op.Controlled() && op.Client.mayAll(decides) {
		return op.Generic.Bypass || !op.Generic.HasBypass && op.Generic.Versions == nil
	}
	return op.Controlled() && op.May(auth.On(auth.Cluster, auth.BypassWriteBlockingMode))
}
