package router

import (
	"log/slog"
	"testing"

	"github.com/mayflydb/mayfly/internal/access"
	"github.com/mayflydb/mayfly/internal/command"
)

// TestEveryCommandHasNeeds holds that no command is forgotten: each says what it needs, or
// that it runs before anyone has authenticated.
func TestEveryCommandHasNeeds(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	d := command.NewDispatcher(log)
	r := New(Options{Dispatcher: d, Log: log, AccessControl: true})
	r.Register(d.Registry)
	t.Cleanup(func() { _ = r.Close(t.Context()) })
	for _, c := range d.Registry.All() {
		if c.Flags&command.NoAuth == 0 && !access.Knows(c.Name) {
			t.Errorf("%s has no needs", c.Name)
		}
	}
}
