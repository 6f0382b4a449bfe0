package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
)

// sessionFields are the fields of a command whose value is a list of sessions.
func sessionFields(name string) *command.Fields {
	id := command.NewFields(name, command.UUID("id").Required(), command.Digest("uid"))
	return command.NewFields(name, command.Value(command.ArrayOf("", command.Struct("", id)).Required())).Lenient()
}

// sessions reads the sessions that the client named. They belong to its user unless
// they name another. Errors: 13.
func sessions(op *command.Op) (ids []command.SessionID, err error) {
	for _, s := range op.Args.Structs(op.Command.Name) {
		id := command.SessionID{UID: op.Client.Owner()}.Of(&s)
		if err := op.CheckSession(id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// endSessions ends sessions before they time out.
func (p *Process) endSessions() *command.Command {
	return &command.Command{
		Name: "endSessions", Flags: command.APIv1, Fields: sessionFields("endSessions"),
		Help: "end a set of logical sessions",
		Run: func(_ context.Context, op *command.Op) error {
			ids, err := sessions(op)
			for _, id := range ids {
				op.Dispatcher.EndSession(id)
			}
			return err
		},
	}
}
