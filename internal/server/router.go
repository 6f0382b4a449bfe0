package server

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/javascript"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/router"
)

// AssembleRouter opens a router: a dispatcher without data, and connections to the
// config servers. It is an Open.
func AssembleRouter(ctx context.Context, s *Server) (*App, error) {
	at, err := client.ParseSetString(s.Options.Sharding.ConfigDB)
	if err != nil {
		return nil, err
	}
	d := command.NewDispatcher(s.log.Logger("COMMAND"))
	d.Host, d.Memory, d.Wall = s.host(), s.memory, s.Clock
	s.auditWith(d)
	d.Tracer = s.tracer
	d.RedactLogs.Set(s.Options.Security.RedactLogs)
	var engine *javascript.Engine
	if s.Options.Security.JavaScript {
		engine = node.NewJavaScript(s.log.Logger("COMMAND"), s.memoryLimit(), s.memory)
	}
	others := s.toOthers()
	others.Log = s.log.Logger("SHARDING")
	r := router.New(router.Options{
		JavaScript: engine,
		ConfigDB:   at, Keys: s.Options.Security.Keys, ByCertificate: s.byCertificate(), AccessControl: s.Options.Security.Authorization, Client: others, Dispatcher: d, Process: s.process(), Log: s.log.Logger("SHARDING"), Memory: s.memory, SpillDir: os.TempDir(),
	})
	r.Register(d.Registry)
	part := s.cosmosPart(nil, nil, d)
	part.Cluster = r
	endpoint, err := s.cosmosComponents(part)
	if err != nil {
		return nil, errors.Join(err, r.Close(ctx))
	}
	s.log.registerParams(d.Params)
	d.Status.Document("mayfly", func(b *bson.Builder) { s.appendStatus(b, nil, nil) })
	d.Profiler.SetSlow(int64(s.Options.Profile.SlowMS), s.Options.Profile.SampleRate)
	if err := setParameters(d.Params, s.Options.SetParameters); err != nil {
		return nil, err
	}
	return &App{
		Dispatcher: d, Clients: &d.Clients, CheckPassword: r.CheckPassword, Collectors: s.operationMetrics(d), Advance: d.Advance,
		Components: slices.Concat([]Component{
			{Name: "connections to shards", Stop: r.Close},
			{Name: "cursors", Stop: func(context.Context) error { d.Cursors.CloseAll(); return nil }},
			background("beacon", r.Beacon),
			background("query analyzers", r.FollowQueryAnalyzers),
			background("users", r.FollowUsers),
			background("default concerns", r.FollowConcerns),
			background("query settings", r.FollowSettings),
			background("housekeeping", d.Housekeep),
			background("heap", s.keepHeap),
		}, endpoint, s.consoleComponents(d, r.CheckPassword)),
	}, nil
}
