package tools

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// write makes changes of every kind that an oplog tells of. They fit documents that write
// has changed before.
func (c tool) write(db string) {
	c.t.Helper()
	id := func(i int) bson.D { return bson.D{{Key: "_id", Value: i}} }
	set := func(i int, u any) {
		c.t.Helper()
		c.run(db, bson.D{{Key: "update", Value: "plain"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: id(i)}, {Key: "u", Value: u}, {Key: "upsert", Value: true}}}}})
	}
	for i := range 20 {
		set(i, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}, {Key: "$set", Value: bson.D{{Key: "in.ts", Value: i}}}, {Key: "$push", Value: bson.D{{Key: "list", Value: i}}}})
		set(i+20, bson.D{{Key: "$unset", Value: bson.D{{Key: "n", Value: 1}}}, {Key: "$set", Value: bson.D{{Key: "new", Value: bson.D{{Key: "a", Value: 1}}}}}})
		set(i, bson.D{{Key: "$set", Value: bson.D{{Key: "list.0", Value: "x"}}}})
		set(i+40, bson.D{{Key: "replaced", Value: i}})
		set(i+5000, bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: i}}}})
		c.run(db, bson.D{{Key: "delete", Value: "plain"}, {Key: "deletes", Value: bson.A{bson.D{{Key: "q", Value: id(i + 60)}, {Key: "limit", Value: 1}}}}})
	}
	session, err := c.StartSession()
	if err != nil {
		c.t.Fatal(err)
	}
	defer session.EndSession(c.t.Context())
	err = mongo.WithSession(c.t.Context(), session, func(ctx context.Context) error {
		if err := session.StartTransaction(); err != nil {
			return err
		}
		plain := c.Database(db).Collection("plain")
		for i := range 3 {
			if _, err := plain.UpdateByID(ctx, 100+i, bson.D{{Key: "$set", Value: bson.D{{Key: "txn", Value: time.UnixMilli(int64(i))}}}}); err != nil {
				return err
			}
		}
		return session.CommitTransaction(ctx)
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// define makes the changes of definitions that an oplog tells of, once.
func (c tool) define(db string) {
	c.t.Helper()
	c.run(db, bson.D{{Key: "create", Value: "later"}, {Key: "capped", Value: true}, {Key: "size", Value: 1 << 16}})
	c.insert(db, "later", []bson.Raw{raw(c.t, bson.D{{Key: "_id", Value: 1}})})
	c.run(db, bson.D{{Key: "create", Value: "dropped"}})
	c.run(db, bson.D{{Key: "drop", Value: "dropped"}})
	c.run(db, bson.D{{Key: "create", Value: "look"}, {Key: "viewOn", Value: "plain"}, {Key: "pipeline", Value: bson.A{}}})
	c.run(db, bson.D{{Key: "collMod", Value: "look"}, {Key: "viewOn", Value: "plain"}, {Key: "pipeline", Value: bson.A{bson.D{{Key: "$limit", Value: 1}}}}})
	c.run(db, bson.D{{Key: "collMod", Value: "valid"}, {Key: "validationLevel", Value: "moderate"}})
	c.run(db, bson.D{{Key: "dropIndexes", Value: "plain"}, {Key: "index", Value: "part"}})
	c.run("admin", bson.D{{Key: "renameCollection", Value: db + ".collated"}, {Key: "to", Value: db + ".renamed"}})
}

func raw(t *testing.T, d bson.D) bson.Raw {
	t.Helper()
	b, err := bson.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// replay sends entries of an oplog as mongorestore --oplogReplay does: each by itself, those
// of a transaction too, without UUIDs; indexes are made otherwise, at the end.
func (c tool) replay(entries []bson.D) {
	c.t.Helper()
	apply := func(e bson.D) {
		var sent bson.D
		for _, f := range e {
			if f.Key != "ui" {
				sent = append(sent, f)
			}
		}
		if r := c.run("admin", bson.D{{Key: "applyOps", Value: bson.A{sent}}}); r["ok"] != 1.0 {
			c.t.Fatalf("%v: %v", e, r)
		}
	}
	for _, e := range entries {
		switch o, _ := get(e, "o").(bson.D); {
		case get(e, "op") == "n":
		case get(e, "op") == "c" && (o[0].Key == "startIndexBuild" || o[0].Key == "commitIndexBuild" || o[0].Key == "createIndexes"):
		case get(e, "op") == "c" && o[0].Key == "applyOps":
			for _, inner := range o[0].Value.(bson.A) {
				apply(inner.(bson.D))
			}
		default:
			apply(e)
		}
	}
}

// TestOplogReplay holds that a dump that was made while others wrote, and the oplog since it
// began, make on another server what is on the first one; and that the oplog may be replayed
// again, and to a set.
func TestOplogReplay(t *testing.T) {
	from := tool{t, testkit.Start(t, "--replSet", "rs0", "--initiate").Client()}
	for _, args := range [][]string{nil, {"--replSet", "rs1", "--initiate"}} {
		t.Run(fmt.Sprint(args), func(t *testing.T) {
			from := tool{t, from.Client}
			db := fmt.Sprintf("db%d", len(args))
			from.fill(db)
			from.write(db)
			started := from.run("admin", bson.D{{Key: "hello", Value: 1}})["operationTime"].(bson.Timestamp)
			from.write(db)
			dumped := from.dump(db)
			from.write(db)
			from.define(db)
			entries := from.cursor("local", bson.D{{Key: "find", Value: "oplog.rs"}, {Key: "filter", Value: bson.D{
				{Key: "ts", Value: bson.D{{Key: "$gt", Value: started}}}}}})
			want := from.dump(db)

			to := tool{t, testkit.Start(t, args...).Client()}
			to.restore(db, dumped)
			for range 2 {
				to.replay(entries)
				got := to.dump(db)
				if !reflect.DeepEqual(got.docs, want.docs) {
					t.Error("documents differ")
				}
				if !reflect.DeepEqual(got.indexes, want.indexes) {
					t.Errorf("indexes are\n%v, want\n%v", got.indexes, want.indexes)
				}
				if len(got.infos) != len(want.infos) {
					t.Fatalf("collections are\n%v, want\n%v", got.infos, want.infos)
				}
				for i := range got.infos {
					a, b := got.infos[i], want.infos[i]
					if get(a, "name") != get(b, "name") || !reflect.DeepEqual(get(a, "options"), get(b, "options")) {
						t.Errorf("is\n%v, want\n%v", a, b)
					}
				}
			}
		})
	}
}
