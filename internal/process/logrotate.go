package process

import (
	"context"
	"errors"

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
	which := ""
	if v.Type == bson.TypeString {
		which = v.Str()
	}
	switch {
	case which == "" && v.Type != bson.TypeString, which == "server":
	case which == "audit" && p.RotateAudit != nil:
	default:
		return mongoerr.New(mongoerr.NoSuchKey, "Unknown log type '%s' for rotation", which)
	}
	var err error
	if which != "audit" && p.Log != nil {
		err = p.Log.Rotate()
	}
	if which != "server" && p.RotateAudit != nil {
		err = errors.Join(err, p.RotateAudit())
	}
	if err != nil {
		return mongoerr.New(mongoerr.FileRenameFailed, "Failed to rotate log: %v", err)
	}
	return nil
}
