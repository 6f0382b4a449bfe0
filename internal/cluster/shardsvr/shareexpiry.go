package shardsvr

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/expire"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// ShareExpiry asks the config servers for this shard's parts of budgets of expiry. Config servers
// of an older build know nothing of it: then each shard has the whole, as it had with that build.
// Errors: 70 while this is no shard of a cluster, those of the network.
func (s *Shard) ShareExpiry(ctx context.Context, claims []expire.Claim) (expire.Shares, error) {
	shares := expire.Shares{Parts: make([]float64, len(claims))}
	b := new(bson.Builder).String("_configsvrShareExpiry", s.node.ShardName()).OpenArray("budgets")
	for i, c := range claims {
		b.OpenDoc(bson.Index(i)).Binary("collection", 4, c.Collection[:]).String("rule", c.Rule).Int64("lag", c.Lag.Milliseconds()).Close()
	}
	reply, err := s.AskConfig(ctx, "admin", b.Close().Finish())
	if mongoerr.Is(err, mongoerr.CommandNotFound) {
		for i := range shares.Parts {
			shares.Parts[i] = 1
		}
		shares.For = time.Minute
		return shares, nil
	}
	if err != nil {
		return shares, err
	}
	shares.For = time.Duration(bson.ClampToInt64(reply.Lookup("millis"))) * time.Millisecond
	parts := reply.Lookup("parts")
	if parts.Type != bson.TypeArray || parts.Doc().Len() != len(claims) {
		return shares, mongoerr.New(mongoerr.InternalError, "%d budgets were asked for, and the answer is %s", len(claims), parts)
	}
	i := 0
	for v := range parts.Doc().Values() {
		shares.Parts[i] = min(max(bson.ToDouble(v), 0), 1)
		i++
	}
	return shares, nil
}
