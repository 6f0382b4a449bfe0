package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var logRotateFields = command.NewFields("logRotate", command.Value(command.OneOf("",
	bson.TypeBool, bson.TypeInt64, bson.TypeInt32, bson.TypeDecimal, bson.TypeDouble, bson.TypeString).NotNull().Required()))

// logRotate starts a new log file.
func (p *Process) logRotate() *command.Command {
	return &command.Command{
		Name: "logRotate", Flags: command.AdminOnly, Fields: logRotateFields, Help: "rotate logs", Run: p.runLogRotate,
	}
}

func (p *Process) runLogRotate(_ context.Context, op *command.Op) error {
	v := op.Args.Value("logRotate")
	if v.Type == bson.TypeString && v.Str() != "server" {
		return mongoerr.New(mongoerr.NoSuchKey, "Unknown log type '%s' for rotation", v.Str())
	}
	if p.Log == nil {
		return nil
	}
	if err := p.Log.Rotate(); err != nil {
		return mongoerr.New(mongoerr.FileRenameFailed, "Failed to rotate log: %v", err)
	}
	return nil
}
