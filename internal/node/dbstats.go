package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// dbStats answers {dbStats: 1} with sizes and counts of a database. (Manual:
// database command dbStats.)
func (n *Node) dbStats() *command.Command {
	return &command.Command{
		Name: "dbStats", Aliases: []string{"dbstats"}, Flags: command.TakesReadConcern,
		Help: "Get stats on a database. Not instantaneous. Slower for databases with large .ns files.\nExample: { dbStats:1, scale:1 }",
		Run:  n.runDBStats,
	}
}

// dbStatsArguments reads the arguments. Where one is given twice the last one
// counts, unlike with other commands.
func dbStatsArguments(body bson.Doc) (scale int64, free bool, err error) {
	scale = 1
	it := body.Iter()
	it.Next()
	for it.Next() {
		v := it.Value
		switch it.Key {
		case "scale":
			switch {
			case v.IsNullish():
			case !v.IsNumber():
				return 0, false, mongoerr.New(mongoerr.TypeMismatch,
					"BSON field 'dbStats.scale' is the wrong type '%s', expected types '[long, int, decimal, double]'", v.Type)
			default:
				scale = bson.ClampToInt64(v)
			}
		case "freeStorage":
			switch {
			case v.IsNullish():
			case v.Type != bson.TypeBool && !v.IsNumber():
				return 0, false, mongoerr.New(mongoerr.TypeMismatch,
					"BSON field 'dbStats.freeStorage' is the wrong type '%s', expected types '[bool, long, int, decimal, double]'", v.Type)
			default:
				free = v.Truthy()
			}
		default:
			if !command.IsGeneric(it.Key) {
				return 0, false, mongoerr.New(mongoerr.Code(40415), "BSON field 'dbStats.%s' is an unknown field.", it.Key)
			}
		}
	}
	if scale <= 0 {
		return 0, false, mongoerr.New(mongoerr.BadValue, "BSON field 'dbStats.scale' value must be > 0, actual value '%d'", scale)
	}
	return scale, free, nil
}

func (n *Node) runDBStats(ctx context.Context, op *command.Op) error {
	scale, free, err := dbStatsArguments(op.Body)
	if err != nil {
		return err
	}
	var collections, views, objects, indexes int64
	var data, storage, indexSize float64
	for _, c := range n.Catalog.Collections(op.DB) {
		if c.IsView() {
			views++
			continue
		}
		collections++
		s, err := n.Catalog.Stats(c)
		if err != nil {
			return err
		}
		objects += s.Count
		indexes += int64(len(s.Indexes))
		data += float64(s.Size)
		storage += float64(s.StorageSize)
		indexSize += float64(s.IndexSize)
	}
	average := 0.0
	if objects > 0 {
		average = data / float64(objects)
	}
	used, _, total := DiskSpace(n.Process.DBPath)
	f := float64(scale)
	b := op.Reply
	b.String("db", op.DB).Int64("collections", collections).Int64("views", views).Int64("objects", objects).
		Double("avgObjSize", average).Double("dataSize", data/f).Double("storageSize", storage/f)
	if free {
		b.Double("freeStorageSize", 0)
	}
	b.Int64("indexes", indexes).Double("indexSize", indexSize/f)
	if free {
		b.Double("indexFreeStorageSize", 0)
	}
	b.Double("totalSize", (storage+indexSize)/f)
	if free {
		b.Double("totalFreeStorageSize", 0)
	}
	b.Int64("scaleFactor", scale).Double("fsUsedSize", used/f).Double("fsTotalSize", total/f)
	return nil
}
