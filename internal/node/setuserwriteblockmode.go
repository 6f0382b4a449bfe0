package node

import (
	"context"
	"slices"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Where a set or a cluster stores that user writes are blocked: one document for all collections.
var (
	BlockNamespace = schema.Namespace{DB: "config", Coll: "user_writes_critical_sections"}
	BlockID        = bson.String("")
)

// userWriteBlock guards the block of user writes.
type userWriteBlock struct {
	changing chan struct{} // has room for who changes it
	mu       sync.Mutex    // held from reading what is stored until that is in effect
}

var setUserWriteBlockModeFields = command.NewFields("setUserWriteBlockMode",
	command.Bool("global").Required(), command.Enum("reason", command.BlockReasons...))

// setUserWriteBlockMode blocks the writes of clients to their databases, for the whole
// set, or ends that. (Manual: database command setUserWriteBlockMode.)
func (n *Node) setUserWriteBlockMode() *command.Command {
	return &command.Command{
		Name: "setUserWriteBlockMode", Fields: setUserWriteBlockModeFields,
		Help: "Set whether user write blocking is enabled", Run: n.runSetUserWriteBlockMode,
	}
}

// begin waits until nobody else changes the block.
func (b *userWriteBlock) begin(ctx context.Context) error {
	select {
	case b.changing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// end lets the next one change the block, after begin.
func (b *userWriteBlock) end() { <-b.changing }

func (n *Node) runSetUserWriteBlockMode(ctx context.Context, op *command.Op) error {
	switch {
	case n.Dispatcher.Member == nil:
		return mongoerr.New(mongoerr.IllegalOperation, "setUserWriteBlockMode cannot be run on standalones")
	case n.shard || n.ConfigServer:
		return mongoerr.New(mongoerr.IllegalOperation, "setUserWriteBlockMode cannot be run on shardsvrs nor configsvrs")
	}
	if err := n.block.begin(ctx); err != nil {
		return err
	}
	defer n.block.end()
	stored, err := n.Catalog.Kept(BlockNamespace, BlockID)
	if err != nil {
		return err
	}
	reason := op.Args.Value("reason")
	if op.Args.Bool("global") {
		return n.blockUserWrites(ctx, stored, reason)
	}
	return n.unblockUserWrites(ctx, stored, reason)
}

// blockUserWrites returns when no user write runs, none is taken any more, and that is
// stored. Where waiting for the running writes ends with ctx, nothing has changed. Where
// the document cannot be stored, it may be stored later: what is stored is in effect
// within a second.
func (n *Node) blockUserWrites(ctx context.Context, stored bson.Doc, reason bson.Value) error {
	if stored != nil {
		if err := SameBlockReason(stored, reason, true); err != nil {
			return err
		}
	}
	return n.keepBlock(ctx, stored, BlockDoc(reason, true))
}

// BlockDoc is the document by which user writes are blocked. complete is false where it is only
// that clients change no definitions, which is so on config servers before it is more.
func BlockDoc(reason bson.Value, complete bool) bson.Doc {
	b := new(bson.Builder).Value("_id", BlockID).Bool("blockNewUserShardedDDL", !complete).Bool("blockUserWrites", complete)
	if reason.Type == bson.TypeString {
		b.Value("blockUserWritesReason", reason)
	}
	return b.Finish()
}

// keepBlock blocks user writes, and stores that unless it is stored.
func (n *Node) keepBlock(ctx context.Context, stored, doc bson.Doc) error {
	term := n.Dispatcher.Member.State().Term
	if err := n.Dispatcher.BlockUserWrites(ctx, blockReason(doc.Lookup("blockUserWritesReason"))); err != nil {
		return err
	}
	if !stored.Lookup("blockUserWrites").Truthy() {
		if err := n.changeBlock(ctx, func(ctx context.Context) error { return n.Catalog.Keep(ctx, BlockNamespace, doc) }); err != nil {
			return err
		}
	}
	if err := n.recoverBlock(ctx); err != nil {
		return err
	}
	if n.Dispatcher.Member.State().Term != term { // it has stepped up in between, and may have let writes pass
		return mongoerr.New(mongoerr.InterruptedDueToReplStateChange, "operation was interrupted")
	}
	return nil
}

func (n *Node) unblockUserWrites(ctx context.Context, stored bson.Doc, reason bson.Value) error {
	if stored != nil {
		if err := SameBlockReason(stored, reason, false); err != nil {
			return err
		}
		if err := n.changeBlock(ctx, func(ctx context.Context) error { return n.Catalog.Unkeep(ctx, BlockNamespace, BlockID) }); err != nil {
			return err
		}
	}
	return n.recoverBlock(ctx)
}

// changeBlock writes the document, in the gate. It goes on when the client has gone, so
// that what is stored is known.
func (n *Node) changeBlock(ctx context.Context, write func(context.Context) error) error {
	pass, err := n.Dispatcher.Enter(ctx, BlockNamespace.DB)
	if err != nil {
		return err
	}
	defer pass.Leave()
	return write(context.WithoutCancel(ctx))
}

// SameBlockReason refuses another reason, to block or to end that, than the one for which writes
// are blocked: 20. None is not the same as Unspecified.
func SameBlockReason(stored bson.Doc, reason bson.Value, block bool) error {
	has := stored.Lookup("blockUserWritesReason")
	if reason.Type != bson.TypeString {
		reason = bson.Value{}
	}
	if has.IsMissing() == reason.IsMissing() && (has.IsMissing() || has.Str() == reason.Str()) {
		return nil
	}
	verb, what := "release", "reason"
	if block {
		verb, what = "acquire", "options"
	}
	return mongoerr.New(mongoerr.IllegalOperation, "Cannot %s user writes critical section with different %s than the already existing one. reason: %s, current: %s",
		verb, what, command.BlockReasons[blockReason(reason)], command.BlockReasons[blockReason(has)])
}

// blockReason is the index of a reason, which is a string, or not given.
func blockReason(v bson.Value) int {
	if v.Type != bson.TypeString {
		return 0
	}
	return max(0, slices.Index(command.BlockReasons, v.Str()))
}

// recoverBlock puts into effect what is stored: after a change, when the process starts,
// and when the member steps up.
func (n *Node) recoverBlock(context.Context) error {
	n.block.mu.Lock()
	defer n.block.mu.Unlock()
	stored, err := n.Catalog.Kept(BlockNamespace, BlockID)
	if err != nil {
		return err
	}
	if stored.Lookup("blockUserWrites").Truthy() || stored.Lookup("blockNewUserShardedDDL").Truthy() {
		n.Dispatcher.UserWrites.Block(blockReason(stored.Lookup("blockUserWritesReason")))
	} else {
		n.Dispatcher.UserWrites.Unblock()
	}
	return nil
}

// followBlock is recoverBlock unless this member is changing it.
func (n *Node) followBlock(ctx context.Context) {
	select {
	case n.block.changing <- struct{}{}:
		defer n.block.end()
	default:
		return
	}
	if err := n.inside(ctx, n.recoverBlock); err != nil && ctx.Err() == nil {
		n.sayBlockUnknown(err)
	}
}

func (n *Node) sayBlockUnknown(err error) {
	n.Log.Error("Cannot read whether user writes are blocked", "c", "CONTROL", "id", 9000014, "error", err.Error())
}

// startUserWrites has the block of user writes follow what is stored, on a member.
func (n *Node) startUserWrites() {
	n.block.changing = make(chan struct{}, 1)
	if n.Dispatcher.Member == nil || n.Catalog == nil {
		return
	}
	n.Catalog.OnStepUp(n.recoverBlock)
	if err := n.recoverBlock(context.Background()); err != nil {
		n.sayBlockUnknown(err)
	}
}
