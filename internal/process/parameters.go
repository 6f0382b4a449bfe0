package process

import (
	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// RegisterParameters adds the parameters that servers and routers only show.
func RegisterParameters(p *command.Params) {
	p.Fixed("authenticationMechanisms", true, func() bson.Value {
		return bson.Array(bson.String(auth.X509), bson.String(auth.ScramSHA1), bson.String(auth.ScramSHA256))
	})
	p.Fixed("KeysRotationIntervalSec", true, func() bson.Value { return bson.Int32(7776000) })
	p.Fixed("ShardingTaskExecutorPoolReplicaSetMatching", true, func() bson.Value { return bson.String("automatic") })
}
