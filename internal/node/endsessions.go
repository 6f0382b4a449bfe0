package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// sessionFields are the fields of a command whose value is a list of sessions.
func sessionFields(name string) *command.Fields {
	id := command.NewFields(name, command.UUID("id").Required(), command.OneOf("uid", bson.TypeBinary))
	return command.NewFields(name, command.Value(command.ArrayOf("", command.Struct("", id)).Required())).Lenient()
}

// sessions reads the sessions that the client named; they belong to its user.
func sessions(op *command.Op) []command.SessionID {
	var ids []command.SessionID
	for _, s := range op.Args.Structs(op.Command.Name) {
		id := command.SessionID{UID: op.Client.Owner()}
		id.ID, _ = s.UUID("id")
		ids = append(ids, id)
	}
	return ids
}

// endSessions ends sessions before their time.
func (n *Node) endSessions() *command.Command {
	return &command.Command{
		Name: "endSessions", Flags: command.APIv1, Fields: sessionFields("endSessions"),
		Help: "end a set of logical sessions",
		Run: func(_ context.Context, op *command.Op) error {
			for _, id := range sessions(op) {
				op.Dispatcher.EndSession(id)
			}
			return nil
		},
	}
}
