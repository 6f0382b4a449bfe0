package server

import (
	"github.com/mayflydb/mayfly/internal/cluster/shardsvr"
	"github.com/mayflydb/mayfly/internal/cosmos"
	"github.com/mayflydb/mayfly/internal/node"
)

// shardServer makes this member part of a shard if it has a role in a cluster; config
// servers may be a shard, too. It adds the commands, and returns that part, nil for none, and the
// components that do the background work.
func (s *Server) shardServer(n *node.Node) (*shardsvr.Shard, []Component, error) {
	if s.Options.Sharding.Role == "" {
		return nil, nil, nil
	}
	shard := shardsvr.New(n, s.toOthers(), s.log.Logger("SHARDING"))
	shard.Register(n.Dispatcher.Registry)
	n.Dispatcher.Background = append(n.Dispatcher.Background, shard.Reshardings)
	endpoint, err := cosmos.NewShard(s.cosmosPart(n.Catalog, n.Exec, n.Dispatcher), cosmos.Shard{Guard: n.Guard, Held: n.Held, AskConfig: shard.AskConfig})
	if err != nil {
		return nil, nil, err
	}
	return shard, []Component{background("shard", shard.Run), background("cosmos tending", endpoint.Tend)}, nil
}
