package node

import (
	"context"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// blockWait is how long a shard waits for running writes before user writes are blocked.
const blockWait = 90 * time.Second

// KeepSettings stores settings of the cluster on a shard, and puts them into effect: a list of
// {of: a collection of the database config, id, is: its document there, or none}. Errors: 2, 24
// where writes do not end.
func (n *Node) KeepSettings(ctx context.Context, list bson.Value) error {
	if list.Type != bson.TypeArray {
		return mongoerr.New(mongoerr.BadValue, "settings must be an array")
	}
	for v := range list.Doc().Values() {
		if v.Type != bson.TypeDocument {
			return mongoerr.New(mongoerr.BadValue, "not a setting: %s", v)
		}
		of, id, is := v.Doc().Lookup("of"), v.Doc().Lookup("id"), v.Doc().Lookup("is")
		var doc bson.Doc
		if is.Type == bson.TypeDocument {
			doc = is.Doc()
		}
		var err error
		switch {
		case of.Type != bson.TypeString || id.Type != bson.TypeString:
			err = mongoerr.New(mongoerr.BadValue, "not a setting: %s", v)
		case of.Str() == BlockNamespace.Coll:
			err = n.keepClusterBlock(ctx, doc)
		case of.Str() == ParametersNamespace.Coll:
			err = n.keepClusterParameter(ctx, id, doc)
		default:
			err = mongoerr.New(mongoerr.BadValue, "not a setting: %s", v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// keepClusterBlock blocks user writes, or ends that for nil. It also waits for what has been
// prepared to be committed.
func (n *Node) keepClusterBlock(ctx context.Context, doc bson.Doc) error {
	ctx, cancel := context.WithTimeoutCause(ctx, blockWait, mongoerr.New(mongoerr.LockTimeout, "Blocking user writes timed out waiting for running writes"))
	defer cancel()
	if err := n.block.begin(ctx); err != nil {
		return err
	}
	defer n.block.end()
	stored, err := n.Catalog.Kept(BlockNamespace, BlockID)
	if err != nil {
		return err
	}
	if doc == nil {
		if stored != nil {
			if err := n.changeBlock(ctx, func(ctx context.Context) error { return n.Catalog.Unkeep(ctx, BlockNamespace, BlockID) }); err != nil {
				return err
			}
		}
		return n.recoverBlock(ctx)
	}
	if err := n.keepBlock(ctx, stored, doc); err != nil {
		return err
	}
	return n.awaitDecisions(ctx)
}

// awaitDecisions waits until the transactions that are prepared now are committed or aborted.
func (n *Node) awaitDecisions(ctx context.Context) error {
	is := func(u catalog.Undecided) func(catalog.Undecided) bool {
		return func(o catalog.Undecided) bool { return o.Session == u.Session && o.Txn == u.Txn }
	}
	left := n.Catalog.Undecided()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		now := n.Catalog.Undecided()
		left = slices.DeleteFunc(left, func(u catalog.Undecided) bool { return !slices.ContainsFunc(now, is(u)) })
		if len(left) == 0 {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// keepClusterParameter sets a parameter to what it is in the cluster, nil for the default.
func (n *Node) keepClusterParameter(ctx context.Context, id bson.Value, doc bson.Doc) error {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	var err error
	if doc != nil {
		err = n.storeClusterParameter(ctx, id.Str(), doc)
	} else {
		err = n.Catalog.Unkeep(ctx, ParametersNamespace, id)
	}
	if err != nil {
		return err
	}
	n.cluster.values = nil
	return n.loadClusterParameters()
}

// SettingsChanged has a config server go by the settings that it has just stored.
func (n *Node) SettingsChanged() {
	n.cluster.mu.Lock()
	n.cluster.values = nil
	err := n.loadClusterParameters()
	n.cluster.mu.Unlock()
	if err != nil {
		n.Log.Error("Cannot read the cluster parameters", "c", "CONTROL", "id", logParametersUnread, "error", err.Error())
	}
	if err := n.recoverBlock(context.Background()); err != nil {
		n.sayBlockUnknown(err)
	}
}
