package process

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
)

// advanceClock answers {advanceClock: 1, millis}: it sets the server's clock forward, removes
// what has come due by that, and returns {localTime}. MongoDB has nothing like it; as
// configureFailPoint, the server has it only where it was started with enableTestCommands.
func advanceClock() *command.Command {
	return &command.Command{
		Name: "advanceClock", Place: command.Anywhere, Flags: command.AdminOnly, Help: "sets the server's clock forward, and removes what has expired by then",
		Fields: command.NewFields("advanceClock", command.SafeInt64("millis").Required().Min(0).Max(maxAdvance)),
		Run: func(ctx context.Context, op *command.Op) error {
			now, err := op.Dispatcher.Advance(ctx, time.Duration(op.Args.Int64("millis"))*time.Millisecond)
			if err == nil {
				op.Reply.Date("localTime", now.UnixMilli())
			}
			return err
		},
	}
}

// maxAdvance is the largest number of milliseconds that a time.Duration can hold, and a little
// less; the clock itself allows less.
const maxAdvance = 1 << 43
