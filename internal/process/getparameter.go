package process

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var getParameterOptions = command.NewFields("getParameter",
	command.SafeBool("showDetails"), command.SafeBool("allParameters"), command.Enum("setAt", "startup", "runtime"))

// getParameter returns the values of the named server parameters, or of all.
func (p *Process) getParameter() *command.Command {
	return &command.Command{
		Name: "getParameter", Flags: command.AdminOnly, Run: p.runGetParameter,
		Help: "get administrative option(s)\nexample:\n{ getParameter:1, notablescan:1 }\nuse { getParameter:'*' } " +
			"or { getParameter:{allParameters: true} } to get everything",
	}
}

func (p *Process) runGetParameter(_ context.Context, op *command.Op) error {
	_, v := op.Body.First()
	all, details, setAt := v.Type == bson.TypeString && v.Str() == "*", false, ""
	if v.Type == bson.TypeDocument {
		a, err := command.ParseDoc(getParameterOptions, v.Doc())
		if err != nil {
			return err
		}
		all, details, setAt = a.Bool("allParameters"), a.Bool("showDetails"), a.Str("setAt")
	}
	found := false
	for _, p := range op.Dispatcher.Params.All() {
		if all {
			if setAt == "startup" && !p.AtStartup || setAt == "runtime" && !p.AtRuntime {
				continue
			}
		} else if !named(op.Body, p.Name) {
			continue
		}
		found = true
		if details {
			op.Reply.OpenDoc(p.Name).Value("value", p.Get()).Bool("settableAtRuntime", p.AtRuntime).
				Bool("settableAtStartup", p.AtStartup).Close()
		} else {
			op.Reply.Value(p.Name, p.Get())
		}
	}
	if !found {
		return mongoerr.New(mongoerr.InvalidOptions, "no option found to get")
	}
	return nil
}

// named reports whether a field of the command, after the first, has the name.
func named(body bson.Doc, name string) bool {
	it := body.Iter()
	it.Next()
	for it.Next() {
		if it.Key == name {
			return true
		}
	}
	return false
}
