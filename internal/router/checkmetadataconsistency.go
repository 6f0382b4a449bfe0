package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// checkMetadataConsistency has the config servers compare what they know of the cluster, a
// database or a collection with itself and with what the shards have. (Manual:
// checkMetadataConsistency.)
func (r *Router) checkMetadataConsistency() *command.Command {
	return &command.Command{
		Name: "checkMetadataConsistency", Help: "inconsistencies of the cluster's metadata", Run: r.runCheckMetadata,
		Fields: command.NewFields("checkMetadataConsistency", command.Value(command.Any("")), command.String("coll"), command.SafeBool("checkIndexes"),
			command.Struct("cursor", command.NewFields("checkMetadataConsistency.cursor", command.SafeInt64("batchSize").Min(0)))),
	}
}

func (r *Router) runCheckMetadata(ctx context.Context, op *command.Op) error {
	of := op.DB
	switch _, v := op.Body.First(); {
	case v.Type == bson.TypeString && op.Args.Has("coll"):
		return mongoerr.New(mongoerr.InvalidOptions, "a collection is named twice: in 'checkMetadataConsistency' and in 'coll'")
	case v.Type == bson.TypeString:
		of += "." + v.Str()
	case !v.IsNumber() || bson.ToDouble(v) != 1:
		return mongoerr.New(mongoerr.InvalidNamespace, "Invalid command format: the 'checkMetadataConsistency' field must specify a collection name or 1")
	case op.Args.Has("coll"):
		of += "." + op.Args.Str("coll")
	}
	if of != op.DB && !command.ValidCollectionName(schema.ParseNamespace(of).Coll) {
		return mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s'", of)
	}
	if op.DB == "admin" { // all of the cluster
		of = ""
	}
	b := new(bson.Builder).String(configName("checkMetadataConsistency"), of).Bool("checkIndexes", op.Args.Bool("checkIndexes"))
	if v := op.Body.Lookup("cursor"); !v.IsMissing() {
		b.Value("cursor", v)
	}
	a, err := r.ask(ctx, op, question{shard: configShard, db: "admin", body: b.Finish()})
	if err != nil {
		return err
	}
	return r.passCursor(ctx, op, &route{ns: op.DB + ".$cmd.aggregate"}, configShard, a)
}
