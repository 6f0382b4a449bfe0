package server

import (
	"context"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/telemetry"
)

// openTelemetry begins to send traces and metrics, if the options say so.
func (s *Server) openTelemetry(ctx context.Context) error {
	o := s.Options.Telemetry
	if o.Endpoint == "" {
		return nil
	}
	role := s.role()
	t, err := telemetry.Open(ctx, telemetry.Options{
		Endpoint: o.Endpoint, SampleRate: o.SampleRate, Part: s.Options.Sharding.Role != "", Service: o.Service, Version: config.Version, Instance: s.host(), Role: role,
		Metrics: s.registry, Log: s.control,
	})
	if err != nil {
		return err
	}
	s.tracer = t
	s.registry.MustRegister(t.Collectors()...)
	s.control.Info("Traces and metrics are sent to an OpenTelemetry collector", "id", logTelemetry, "endpoint", o.Endpoint, "sampleRate", o.SampleRate, "role", role)
	return nil
}

// role is what the process is, in a word, for those who watch many.
func (s *Server) role() string {
	switch o := s.Options; {
	case o.Sharding.ConfigDB != "":
		return "router"
	case o.Sharding.Role == config.ConfigServer:
		return "config server"
	case o.Sharding.Role == config.ShardServer:
		return "shard"
	case o.Replication.Set != "":
		return "member"
	}
	return "standalone"
}
