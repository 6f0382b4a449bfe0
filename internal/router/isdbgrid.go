package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// isDBGrid answers {isdbgrid: 1}, by which clients know a router. (Manual: isdbgrid.)
func (r *Router) isDBGrid() *command.Command {
	return &command.Command{
		Name: "isdbgrid", Help: "tells that this is a router",
		Run: func(_ context.Context, op *command.Op) error {
			op.Reply.Int32("isdbgrid", 1).Value("hostname", r.Process.ServerInfo().Lookup("host"))
			return nil
		},
	}
}

// refused returns the commands that a router, as mongos, knows only to refuse.
func refused() []*command.Command {
	return []*command.Command{
		{Name: "compact", Help: "not allowed through a router", Run: func(context.Context, *command.Op) error {
			return mongoerr.New(mongoerr.CommandNotSupported, "compact not allowed through mongos")
		}},
		{Name: "replSetGetStatus", Flags: command.AdminOnly, Help: "Not supported through mongos", Run: func(context.Context, *command.Op) error {
			return mongoerr.New(mongoerr.UnknownError, "replSetGetStatus is not supported through mongos").WithExtra(new(bson.Builder).String("info", "mongos").Finish())
		}},
	}
}
