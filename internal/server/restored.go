package server

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"

	"github.com/mayflydb/mayfly/internal/backup"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/expire"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/storage"
)

// expireRestored removes what is due from data that mayfly restore has made, before anybody
// sees it. The data belong to no set yet, so the server is a standalone meanwhile.
func (s *Server) expireRestored(ctx context.Context) (err error) {
	dir := s.Options.Storage.DBPath
	switch restored, err := backup.IsRestored(dir); {
	case err != nil || !restored:
		return err
	case s.ttlDisabled():
		s.control.Warn("The data were restored, and have what is due, as the TTL monitor is disabled", "id", logRestoredDue)
		return nil
	}
	place, err := storage.Place(s.FS, dir)
	if err != nil {
		return err
	}
	engine, err := s.openEngine(place)
	if err != nil {
		return err
	}
	if err := errors.Join(s.removeDue(ctx, engine), engine.Close()); err != nil {
		return err
	}
	return backup.SetServed(dir)
}

// ttlDisabled reports whether the options disable the TTL monitor.
func (s *Server) ttlDisabled() (disabled bool) {
	for _, p := range s.Options.SetParameters {
		if p.Name == "ttlMonitorEnabled" {
			on, err := strconv.ParseBool(p.Value)
			disabled = err == nil && !on
		}
	}
	return disabled
}

// removeDue removes what is due in a store.
func (s *Server) removeDue(ctx context.Context, engine *storage.Engine) error {
	if err := s.tidy(); err != nil {
		return err
	}
	cat, err := catalog.Open(engine, catalog.Options{Memory: s.memory, Log: s.log.Logger("STORAGE").With("ctx", "initandlisten")})
	if err != nil {
		return err
	}
	d := command.NewDispatcher(s.log.Logger("COMMAND"))
	d.Memory = s.memory
	x := &exec.Executor{Catalog: cat, Memory: s.memory, SpillDir: filepath.Join(s.Options.Storage.DBPath, spillDirectory)}
	s.control.Info("The data were restored: removing what is due before they are served", "id", logRestored)
	m := expire.New(expire.Options{Catalog: cat, Exec: x, Dispatcher: d, Log: s.log.Logger("INDEX").With("ctx", "TTLMonitor")})
	return errors.Join(m.RemoveDue(ctx), cat.Close())
}
