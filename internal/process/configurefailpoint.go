package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// failPoint is the fail point with that name, or nil.
func failPoint(d *command.Dispatcher, name string) *command.FailPoint {
	switch name {
	case "failCommand":
		return d.FailCommand
	case "onPrimaryTransactionalWrite":
		return d.FailWrite
	case "failGetMoreAfterCursorCheckout":
		return d.FailGetMore
	}
	return nil
}

// configureFailPoint sets a fail point. The server
// has it only where it was started with enableTestCommands.
func configureFailPoint() *command.Command {
	return &command.Command{
		Name: "configureFailPoint", Place: command.Anywhere, Flags: command.AdminOnly, Help: "modifies the settings of a fail point",
		Fields: command.NewFields("configureFailPoint",
			command.Value(command.String("").Required()), command.Any("mode"), command.Object("data")),
		Run: func(_ context.Context, op *command.Op) error {
			name := op.Args.Str("configureFailPoint")
			f := failPoint(op.Dispatcher, name)
			if f == nil {
				return mongoerr.New(mongoerr.FailPointSetFailed, "%s not found", name)
			}
			entered, err := f.Configure(op.Args.Value("mode"), op.Args.Doc("data"))
			op.Reply.Int64("count", entered)
			return err
		},
	}
}

// RegisterTestCommands registers the parameter enableTestCommands, which adds the commands
// that only tests need to a dispatcher.
func RegisterTestCommands(d *command.Dispatcher) {
	var tests *command.BoolParam
	tests = d.Params.Bool(command.BoolSpec{Name: "enableTestCommands", Startup: true, OnChange: func() {
		if tests.Load() && d.FailCommand == nil {
			d.FailCommand, d.FailWrite, d.FailGetMore = &command.FailPoint{}, &command.FailPoint{Writes: true}, &command.FailPoint{GetMores: true}
			d.Registry.Register(configureFailPoint(), advanceClock())
		}
	}})
}
