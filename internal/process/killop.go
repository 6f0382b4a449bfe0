package process

import (
	"context"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// KillOp ends the operation with the given opid, if it still runs.
func (p *Process) KillOp() *command.Command {
	return &command.Command{Name: "killOp", Flags: command.AdminOnly, Help: "kill op", Run: p.runKillOp}
}

func (p *Process) runKillOp(ctx context.Context, op *command.Op) error {
	id, err := OpID(op.Body.Lookup("op"))
	if err != nil {
		return err
	}
	op.Reply.String("info", "attempting to kill op")
	op.Dispatcher.Log.InfoContext(ctx, "Going to kill op", "c", "COMMAND", "id", 20482, "opId", id)
	if target := op.Dispatcher.Clients.FindOp(id); target != nil && target != op {
		target.Kill()
	}
	return nil
}

// OpID reads the opid of an operation. Errors: 2, 4, 14, 26823.
func OpID(v bson.Value) (int32, error) {
	if v.IsMissing() {
		return 0, mongoerr.New(mongoerr.NoSuchKey, "Missing expected field \"op\"")
	}
	if !v.IsNumber() {
		return 0, mongoerr.New(mongoerr.TypeMismatch, "Expected field \"op\" to have numeric type, but found %s", v.Type)
	}
	id, exact := bson.ExactInt64(v)
	if !exact {
		return 0, mongoerr.New(mongoerr.BadValue,
			"Expected field \"op\" to have a value exactly representable as a 64-bit integer, but found op: %s", v)
	}
	if id < math.MinInt32 || id > math.MaxInt32 {
		return 0, mongoerr.New(mongoerr.Code(26823), "invalid op : %d. Op ID cannot be represented with 32 bits", id)
	}
	return int32(id), nil
}
