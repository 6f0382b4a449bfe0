package server

import (
	"log/slog"
	"sync"

	"github.com/mayflydb/mayfly/internal/audit"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/expire"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/router"
)

// CheckParameter says what is wrong with a parameter given at start, without a
// server: it sets it in a registry that is not used.
func CheckParameter(name, value string) error { return scratch().SetAtStartup(name, value) }

var scratch = sync.OnceValue(func() *command.Params {
	log := slog.New(slog.DiscardHandler)
	d := command.NewDispatcher(log)
	(&node.Node{Dispatcher: d, Params: d.Params, Log: log}).Register(d.Registry)
	expire.NewParams(d.Params, func() {}, func() {})
	(&Log{Verbosity: newVerbosity()}).registerParams(d.Params)
	registerMember(d.Params, nil)
	new(audit.Log).Register(d.Params)
	return d.Params
})

// CheckRouterParameter is CheckParameter for a router.
func CheckRouterParameter(name, value string) error { return scratchRouter().SetAtStartup(name, value) }

var scratchRouter = sync.OnceValue(func() *command.Params {
	log := slog.New(slog.DiscardHandler)
	d := command.NewDispatcher(log)
	router.New(router.Options{Dispatcher: d, Log: log}) // of no cluster: it connects to nobody
	(&Log{Verbosity: newVerbosity()}).registerParams(d.Params)
	new(audit.Log).Register(d.Params)
	return d.Params
})

// setParameters applies the parameters that were given at startup.
func setParameters(p *command.Params, given []config.Parameter) error {
	var wrong config.Errors
	for _, g := range given {
		if err := p.SetAtStartup(g.Name, g.Value); err != nil {
			wrong = append(wrong, config.Error{Place: g.Place, Message: err.Error()})
		}
	}
	if len(wrong) > 0 {
		return wrong
	}
	return nil
}
