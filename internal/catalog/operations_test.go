package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// telling is a Committer that keeps the operations of what it commits, as they are
// read from an encoding.
type telling struct {
	t   *testing.T
	c   *Catalog
	out strings.Builder
}

func (k *telling) Writable() error { return nil }

func (k *telling) Commit(ctx context.Context, e *Effect, d storage.Durability) error {
	again, err := k.c.Decode(e.AppendEncoded(nil))
	if err != nil {
		return err
	}
	defer again.u.Abort()
	all, session, err := again.Operations()
	if err != nil {
		return err
	}
	if session.ID != nil {
		fmt.Fprintf(&k.out, "session %s, operation %d\n", session.ID, session.Txn)
	}
	for _, op := range all {
		fmt.Fprintf(&k.out, "%s", [...]string{OpInsert: "i", OpUpdate: "u", OpDelete: "d", OpRange: "r", OpCommand: "c", OpReplace: "u whole", OpExpired: "d expired"}[op.Kind])
		if op.Statement >= 0 {
			fmt.Fprintf(&k.out, " statement %d", op.Statement)
		}
		if zero := (UUID{}); op.UUID != zero && k.c.LookupUUID(op.UUID) == nil && op.Kind != OpCommand {
			fmt.Fprintf(&k.out, " of no collection")
		}
		fmt.Fprintf(&k.out, " %s %s", op.Namespace, op.Doc)
		for _, id := range op.IDs {
			if id.Type == bson.TypeObjectID { // of a bucket
				id = bson.String("an ObjectId")
			}
			fmt.Fprintf(&k.out, " %s", id)
		}
		if op.Old != nil {
			fmt.Fprintf(&k.out, " was %s", op.Old)
		}
		k.out.WriteString("\n")
	}
	return e.Commit(ctx, d)
}

// TestOperations holds what an oplog is told of writes and DDL. UUIDs are shown as X.
func TestOperations(t *testing.T) {
	k := &telling{t: t}
	e, err := storage.Open(storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if k.c, err = Open(e, Options{Committer: k, Operations: true}); err != nil {
		t.Fatal(err)
	}
	defer k.c.Close()
	notes := eachNote()
	for _, s := range slices.Concat(notes[:len(notes)-2], moreOperations(), notes[len(notes)-1:]) {
		fmt.Fprintf(&k.out, "# %s\n", s.name)
		if err := s.do(t, k.c); err != nil {
			fmt.Fprintf(&k.out, "%v\n", err)
		}
	}
	if got := uuids.ReplaceAllString(k.out.String(), "X"); got != goldenOperations {
		t.Errorf("got\n%s", got)
	}
}

// moreOperations are steps for what eachNote has not.
func moreOperations() []step {
	plain := schema.Namespace{DB: "d", Coll: "plain"}
	return []step{
		{"a session's statements", func(t *testing.T, c *Catalog) error {
			coll := c.Lookup(plain)
			return c.Run(t.Context(), storage.Buffered, func(u *Unit) error {
				u.SetSession(Session{parse(t, `{"id": 1}`), 7})
				for i := range 2 {
					u.SetStatement(int32(i))
					if err := u.Insert(t.Context(), coll, parse(t, fmt.Sprintf(`{"_id": %d}`, 10+i))); err != nil {
						return err
					}
				}
				u.SetStatement(2)
				record, old, err := u.LockID(t.Context(), coll, bson.Int32(1))
				if err != nil {
					return err
				}
				if err := u.Update(t.Context(), coll, record, old, parse(t, `{"_id": 1, "a": [1, 3], "b": 1}`)); err != nil {
					return err
				}
				u.SetReplacement(true)
				if record, old, err = u.LockID(t.Context(), coll, bson.Int32(1)); err != nil {
					return err
				}
				if err := u.Update(t.Context(), coll, record, old, parse(t, `{"_id": 1, "c": 1}`)); err != nil {
					return err
				}
				if record, old, err = u.LockID(t.Context(), coll, bson.Int32(10)); err != nil {
					return err
				}
				return u.Delete(t.Context(), coll, record, old)
			})
		}},
		{"a build", func(t *testing.T, c *Catalog) error {
			_, _, err := c.CreateIndexes(t.Context(), plain, specs(t, plain, `{"key": {"x": 1}, "name": "x"}`, `{"key": {"y": 1}, "name": "y"}`))
			return err
		}},
		{"a build that fails", func(t *testing.T, c *Catalog) error {
			_, _, err := c.CreateIndexes(t.Context(), plain, specs(t, plain, `{"key": {"z": 1}, "name": "z", "unique": true}`))
			return err
		}},
		{"drop indexes", func(t *testing.T, c *Catalog) error {
			_, err := c.DropIndexes(t.Context(), plain, func(c *Collection) ([]*Index, error) { return []*Index{c.Index("x"), c.Index("y")}, nil })
			return err
		}},
		{"modify", func(t *testing.T, c *Catalog) error {
			ns := schema.Namespace{DB: "d", Coll: "windowed"}
			_, err := c.Modify(t.Context(), ns, func(c *Collection) (Modification, error) {
				to, err := c.Index("at").With(map[string]bson.Value{"expireAfterSeconds": bson.Int64(11)})
				return Modification{Options: parse(t, `{"validationLevel": "moderate"}`), Indexes: map[string]*schema.Index{"at": to}}, err
			})
			return err
		}},
		{"drop all windows", func(t *testing.T, c *Catalog) error {
			coll := c.Lookup(schema.Namespace{DB: "d", Coll: "windowed"})
			_, err := c.DropWindows(t.Context(), coll, Drop{Rule: coll.Rules()[0], Now: time.Date(2002, 6, 1, 0, 0, 0, 0, time.UTC).UnixMilli()})
			return err
		}},
		{"drop buckets", func(t *testing.T, c *Catalog) error {
			coll := c.Lookup(schema.Namespace{DB: "d", Coll: "series"})
			if err := c.SealAll(t.Context(), coll); err != nil {
				return err
			}
			rule := measurements.Rule{Rule: &schema.Rule{Seconds: 1}}
			_, err := c.DropBuckets(t.Context(), coll, &rule, 1_000_000, nil, func(time.Duration) error { return nil }, func(time.Duration) error { return nil })
			return err
		}},
		{"rename", func(t *testing.T, c *Catalog) error {
			_, err := c.Rename(t.Context(), schema.Namespace{DB: "d", Coll: "hiding"}, schema.Namespace{DB: "d", Coll: "capped"}, true)
			return err
		}},
		{"drop plain", func(t *testing.T, c *Catalog) error { _, err := c.Drop(t.Context(), plain); return err }},
		{"a collection of this member", func(t *testing.T, c *Catalog) error {
			ns := schema.Namespace{DB: "local", Coll: "own"}
			coll, err := c.Create(t.Context(), ns, nil)
			if err != nil {
				return err
			}
			return write(c, coll, nil, parse(t, `{"_id": 1}`))
		}},
	}
}

const goldenOperations = `# create plain
c d.plain { create: "plain" }
# index of plain
c d.plain { createIndexes: "plain", v: 2, key: { a: 1 }, name: "a" }
# insert into plain
i d.plain { _id: 1, a: [ 1, 2 ] }
# create hiding
c d.hiding { create: "hiding", storageEngine: { mayfly: { expiry: { visibility: "immediate" } } } }
# index of hiding
c d.hiding { createIndexes: "hiding", v: 2, key: { at: 1 }, name: "at", expireAfterSeconds: 10 }
# insert into hiding
i d.hiding { _id: 1, at: new Date(4070908800000) }
# insert into hiding
i d.hiding { _id: 2, at: new Date(4039372800000) }
# create windowed
c d.windowed { create: "windowed" }
# index of windowed
c d.windowed { createIndexes: "windowed", v: 2, key: { at: 1 }, name: "at", expireAfterSeconds: 10 }
# index of windowed
c d.windowed { createIndexes: "windowed", v: 2, key: { b: 1 }, name: "b" }
# insert into windowed
i d.windowed { _id: 1, at: new Date(978307200000) }
# insert into windowed
i d.windowed { _id: 2, at: new Date(1009843200000) }
# insert into windowed
i d.windowed { _id: 3, at: new Date(1041379200000) }
# touch
u d.windowed { _id: 3, at: new Date(4039372800000) } was { _id: 3, at: new Date(1041379200000) }
# drop windows
d expired d.windowed { reason: "at" } 1
# sweep
# forget windows
# create capped
c d.capped { create: "capped", capped: true, size: 4096, max: 2 }
# insert into capped
i d.capped { _id: 1 }
# insert into capped
i d.capped { _id: 2 }
# insert into capped
i d.capped { _id: 3 }
d d.capped { _id: 1 }
# create series
c d.series { create: "series", timeseries: { timeField: "t", metaField: "s" } }
# measure a
i d.series { t: new Date(1000), s: "a" }
i d.series { t: new Date(2000), s: "a" }
i d.series { t: new Date(3000), s: "a" }
# measure b
i d.series { t: new Date(2000), s: "b" }
# freeze
# measure a
i d.series { t: new Date(4000), s: "a" }
i d.series { t: new Date(5000), s: "a" }
# move
# edit
# seal
# number
i d.plain { _id: 7 }
# insert one
session { id: UUID("X"), uid: BinData(0, 0000000000000000000000000000000000000000000000000000000000000000) }, operation 1
i statement 0 d.plain { _id: 101 }
# insert many
session { id: UUID("X"), uid: BinData(0, 0000000000000000000000000000000000000000000000000000000000000000) }, operation 2
i statement 0 d.plain { _id: 202 }
session { id: UUID("X"), uid: BinData(0, 0000000000000000000000000000000000000000000000000000000000000000) }, operation 2
i statement 1 d.plain { _id: 203 }
session { id: UUID("X"), uid: BinData(0, 0000000000000000000000000000000000000000000000000000000000000000) }, operation 2
i statement 2 d.plain { _id: 204 }
# insert more
session { id: UUID("X"), uid: BinData(0, 0000000000000000000000000000000000000000000000000000000000000000) }, operation 3
i statement 0 d.plain { _id: 305 }
# prepare
# decide
session { id: UUID("X"), uid: BinData(0, 0000000000000000000000000000000000000000000000000000000000000000) }, operation 1
i d.plain { _id: 50 }
# a session's statements
session { id: 1 }, operation 7
i statement 0 d.plain { _id: 10 }
i statement 1 d.plain { _id: 11 }
u statement 2 d.plain { _id: 1, a: [ 1, 3 ], b: 1 } was { _id: 1, a: [ 1, 2 ] }
u whole statement 2 d.plain { _id: 1, c: 1 } was { _id: 1, a: [ 1, 3 ], b: 1 }
d statement 2 d.plain { _id: 10 }
# a build
c d.plain { startIndexBuild: "plain", indexBuildUUID: UUID("X"), indexes: [ { v: 2, key: { x: 1 }, name: "x" }, { v: 2, key: { y: 1 }, name: "y" } ] }
c d.plain { commitIndexBuild: "plain", indexBuildUUID: UUID("X"), indexes: [ { v: 2, key: { x: 1 }, name: "x" }, { v: 2, key: { y: 1 }, name: "y" } ] }
# a build that fails
c d.plain { startIndexBuild: "plain", indexBuildUUID: UUID("X"), indexes: [ { v: 2, unique: true, key: { z: 1 }, name: "z" } ] }
c d.plain { abortIndexBuild: "plain", indexBuildUUID: UUID("X"), indexes: [ { v: 2, unique: true, key: { z: 1 }, name: "z" } ] }
Index build failed: X: Collection d.plain ( X ) :: caused by :: E11000 duplicate key error collection: d.plain index: z dup key: { z: null }
# drop indexes
c d.plain { dropIndexes: "plain", index: "x" } was { v: 2, key: { x: 1 }, name: "x" }
c d.plain { dropIndexes: "plain", index: "y" } was { v: 2, key: { y: 1 }, name: "y" }
# modify
c d.windowed { collMod: "windowed", validationLevel: "moderate" } was { collectionOptions: { uuid: UUID("X") } }
c d.windowed { collMod: "windowed", index: { name: "at", expireAfterSeconds: 11 } } was { collectionOptions: { uuid: UUID("X") }, indexOptions: { expireAfterSeconds: 10 } }
# drop all windows
d expired d.windowed { reason: "at" } 2
# drop buckets
d expired d.system.buckets.series { reason: "" } "an ObjectId" "an ObjectId" "an ObjectId" "an ObjectId" "an ObjectId" "an ObjectId"
# rename
c d.hiding { renameCollection: "d.hiding", to: "d.capped", stayTemp: false, dropTarget: UUID("X") }
# drop plain
c d.plain { drop: "plain" }
# a collection of this member
# drop database
c d.capped { drop: "capped" }
c d.series { drop: "series" }
c d.windowed { drop: "windowed" }
c d { dropDatabase: 1 }
`
