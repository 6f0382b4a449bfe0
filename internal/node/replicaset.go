package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
)

// notReplicated are the commands that only a member of a replica set answers, with
// the message of other servers.
var notReplicated = map[string]string{
	"replSetGetStatus":           "not running with --replSet",
	"replSetInitiate":            "This node was not started with replication enabled.",
	"replSetGetConfig":           "not running with --replSet",
	"replSetReconfig":            "not running with --replSet",
	"replSetStepDown":            "not running with --replSet",
	"replSetStepUp":              "not running with --replSet",
	"replSetFreeze":              "not running with --replSet",
	"replSetMaintenance":         "not running with --replSet",
	"replSetSyncFrom":            "not running with --replSet",
	"replSetAbortPrimaryCatchUp": "not running with --replSet",
	"replSetResizeOplog":         "replSetResizeOplog can only be run on replica sets",
	"replSetGetRBID":             "not running with --replSet",
	"_readLog":                   "A standalone has no log: only its files can be backed up",
	"appendOplogNote":            "Must have replication set up to run \"appendOplogNote\"",
}

// notStandalone are those with a separate error on a standalone: they are about the
// defaults of a cluster.
var notStandalone = map[string]bool{"getDefaultRWConcern": true, "setDefaultRWConcern": true}

// replicaSetCommands are the commands about the replica set.
func (n *Node) replicaSetCommands() []*command.Command {
	all := []*command.Command{
		n.replSetInitiate(), n.replSetGetConfig(), n.replSetReconfig(), n.replSetGetStatus(), n.replSetStepDown(), n.replSetStepUp(),
		n.replSetFreeze(), n.replSetMaintenance(), n.replSetSyncFrom(), n.replSetAbortPrimaryCatchUp(), n.replSetResizeOplog(),
		n.replSetGetRBID(), n.appendOplogNote(), n.readLog(), n.getDefaultRWConcern(), n.setDefaultRWConcern(),
	}
	for _, c := range all {
		c.Flags |= command.AdminOnly
		c.Run = n.onMember(c.Name, c.Run)
	}
	return all
}

// onMember returns run for a member of a replica set, and the command's error
// elsewhere.
func (n *Node) onMember(name string, run command.Handler) command.Handler {
	refused := mongoerr.New(mongoerr.NoReplicationEnabled, "%s", notReplicated[name])
	if notStandalone[name] {
		refused = mongoerr.New(mongoerr.Code(51300), "'%s' is not supported on standalone nodes.", name)
	}
	return func(ctx context.Context, op *command.Op) error {
		switch {
		case n.Dispatcher.Member == nil:
			return refused
		case notStandalone[name] && n.shard && !n.ConfigServer:
			return mongoerr.New(mongoerr.Code(51301), "'%s' is not supported on shard nodes.", name)
		}
		return run(ctx, op)
	}
}

var (
	errNoConfig = mongoerr.New(mongoerr.NotYetInitialized, "no replset config has been received")
	errRemoved  = mongoerr.New(mongoerr.InvalidReplicaSetConfig, "Our replica set config is invalid or we are not a member of it")
)

// setState returns the member's latest state, if it is in a set. Errors: 94.
func (n *Node) setState() (*repl.State, error) {
	st := n.Dispatcher.Member.State()
	if st.Config == nil {
		return nil, errNoConfig
	}
	return st, nil
}

// inside runs f inside the door, so that it may use the data, though its operation
// itself does not.
func (n *Node) inside(ctx context.Context, f func(ctx context.Context) error) error {
	if n.Dispatcher.Member == nil {
		return f(ctx)
	}
	ctx, leave, err := n.Dispatcher.Member.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return f(ctx)
}
