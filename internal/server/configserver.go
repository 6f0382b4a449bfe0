package server

import (
	"context"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/cluster/configsvr"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/cosmos"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/repl"
)

// configServer makes this member a config server if the options say so: it adds the
// commands, and returns the component that does the work of the primary.
func (s *Server) configServer(d *data, n *node.Node) ([]Component, error) {
	if s.Options.Sharding.Role != config.ConfigServer {
		return nil, nil
	}
	m, dispatcher := d.member, n.Dispatcher
	sets := &configsvr.Sets{Options: s.toOthers(), Times: repl.PartTimes{Clock: m.Clock()}}
	sets.Options.AppName, sets.Options.Log = "config server", s.log.Logger("SHARDING")
	limit := dispatcher.Params.Int(command.IntSpec{Name: "reshardingCriticalSectionTimeoutMillis", Default: configsvr.DefaultCriticalSection.Milliseconds(), HasMin: true})
	throttle := dispatcher.Params.Int(command.IntSpec{Name: "balancerMigrationsThrottlingMs", Default: configsvr.DefaultThrottle.Milliseconds(), HasMin: true})
	cs := configsvr.New(configsvr.Options{
		Catalog: d.catalog, Shards: sets, Primary: configPrimary{m}, Enter: m.Enter,
		ClusterTime: func() uint64 { return uint64(m.Clock().Now()) }, Host: s.host(),
		ConfigDB: func() string { return setString(m) }, Log: s.log.Logger("SHARDING").With("ctx", "ConfigServer"),
		Throttle: func() time.Duration { return time.Duration(throttle.Load()) * time.Millisecond }, Dispatcher: dispatcher, SettingsChanged: n.SettingsChanged,
		CriticalSection: func() time.Duration { return time.Duration(limit.Load()) * time.Millisecond },
	})
	dispatcher.Background = append(dispatcher.Background, cs.Operations)
	dispatcher.Registry.Register(cs.Commands()...)
	if _, err := cosmos.NewConfig(s.cosmosPart(d.catalog, n.Exec, dispatcher), cosmos.Config{Key: cs.ShardKey, Names: cs.NamesOf, Indexes: cs.IndexNames, Retain: cs.Retain}); err != nil {
		return nil, err
	}
	work := background("config server", cs.Run)
	stop := work.Stop
	work.Stop = func(ctx context.Context) error {
		err := stop(ctx)
		sets.Close()
		return err
	}
	return []Component{work}, nil
}

// configPrimary implements configsvr.Primary by the member's state.
type configPrimary struct{ *repl.Member }

// Term implements configsvr.Primary.
func (p configPrimary) Term() uint64 {
	if st := p.State(); st.Writable {
		return st.Term
	}
	return 0
}

// setString returns the connection string of the member's set, "" while it is in none.
func setString(m *repl.Member) string {
	c := m.State().Config
	if c == nil {
		return ""
	}
	at := client.SetString{Name: c.Set}
	for i := range c.Members {
		at.Hosts = append(at.Hosts, c.Members[i].Host)
	}
	slices.Sort(at.Hosts)
	return at.String()
}
