package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// setParameter sets all of the given server parameters, or none.
func (p *Process) setParameter() *command.Command {
	return &command.Command{
		Name: "setParameter", Flags: command.AdminOnly, Run: p.runSetParameter,
		Help: "set administrative option(s)\n{ setParameter:1, <param>:<value> }",
	}
}

func (p *Process) runSetParameter(ctx context.Context, op *command.Op) error {
	var settings []command.Setting
	it := op.Body.Iter()
	it.Next()
	for it.Next() {
		if command.IsGeneric(it.Key) {
			continue
		}
		settings = append(settings, command.Setting{Name: it.Key, Value: it.Value})
	}
	if len(settings) == 0 {
		return mongoerr.New(mongoerr.InvalidOptions, "no option found to set, use help:true to see options ")
	}
	was, err := op.Dispatcher.Params.Set(settings)
	if err != nil {
		return err
	}
	for _, s := range settings {
		op.Dispatcher.Log.InfoContext(ctx, "Successfully set parameter", "c", "COMMAND", "id", 23435,
			"parameterName", s.Name, "newValue", s.Value.String())
	}
	op.Reply.Value("was", was)
	return nil
}
