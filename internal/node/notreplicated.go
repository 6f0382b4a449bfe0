package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// replicaSetCommands are the commands that only a member of a replica set
// answers, with the message of a server that is none.
var replicaSetCommands = map[string]string{
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
	"appendOplogNote":            "Must have replication set up to run \"appendOplogNote\"",
}

// notReplicated answers the commands of replica sets with code 76.
func notReplicated() []*command.Command {
	var all []*command.Command
	for name, message := range replicaSetCommands {
		err := mongoerr.New(mongoerr.NoReplicationEnabled, "%s", message)
		all = append(all, &command.Command{
			Name: name, Flags: command.AdminOnly, Help: "replica sets only",
			Run: func(context.Context, *command.Op) error { return err },
		})
	}
	return all
}

// notStandalone answers, with code 51300, the commands about the defaults of a
// cluster.
func notStandalone() []*command.Command {
	fields := map[string]*command.Fields{
		"getDefaultRWConcern": command.NewFields("getDefaultRWConcern", command.Bool("inMemory")),
		"setDefaultRWConcern": command.NewFields("setDefaultRWConcern", command.Object("defaultReadConcern"), command.Object("defaultWriteConcern")),
	}
	var all []*command.Command
	for name, f := range fields {
		err := mongoerr.New(mongoerr.Code(51300), "'%s' is not supported on standalone nodes.", name)
		flags := command.AdminOnly
		if name == "setDefaultRWConcern" {
			flags |= command.TakesWriteConcern
		}
		all = append(all, &command.Command{
			Name: name, Flags: flags, Fields: f, Help: "the cluster-wide default read and write concerns",
			Run: func(context.Context, *command.Op) error { return err },
		})
	}
	return all
}
