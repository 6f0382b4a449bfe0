package shardsvr

import (
	"context"
	"errors"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestCleanupOrphaned: it is answered when the ranges that have moved away are removed, and does
// not wait for what is being received, nor for what lies below the key that it is given.
func TestCleanupOrphaned(t *testing.T) {
	e, err := storage.Open(storage.Options{Dir: "db", FS: storage.NewMemFS(), CacheBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	cat, err := catalog.Open(e, catalog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer cat.Close()
	ns := schema.Namespace{DB: "d", Coll: "c"}
	key, err := schema.ParseShardKey(bson.MustParse(`{k: 1}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"c", "plain"} {
		if _, err := cat.Create(t.Context(), schema.Namespace{DB: "d", Coll: name}, nil); err != nil {
			t.Fatal(err)
		}
	}
	span := func(text string) schema.ShardRange {
		r, ok := key.ParseRange(bson.MustParse(text))
		if !ok {
			t.Fatal(text)
		}
		return r
	}
	low, high := span(`{min: {k: {$minKey: 1}}, max: {k: 10}}`), span(`{min: {k: 10}, max: {k: {$maxKey: 1}}}`)
	hide := func(hidden ...schema.HiddenRange) {
		t.Helper()
		if _, err := cat.SetSharding(t.Context(), ns, func(*catalog.Collection) (*schema.Sharding, error) {
			return &schema.Sharding{Key: key, Shard: "s0", Hidden: hidden}, nil
		}); err != nil {
			t.Error(err)
		}
	}
	c := (&Shard{cat: cat}).cleanupOrphaned()
	run := func(ctx context.Context, text string) error {
		op := &command.Op{Command: c, Name: c.Name, DB: "admin", Body: bson.MustParse(text), Reply: new(bson.Builder)}
		var err error
		if op.Args, err = command.Parse(op, c.Fields); err != nil {
			return err
		}
		return c.Run(ctx, op)
	}
	hide(schema.HiddenRange{ShardRange: low, Operation: 7}, schema.HiddenRange{ShardRange: high, Operation: 8, Receiving: true})
	for text, code := range map[string]mongoerr.Code{
		`{cleanupOrphaned: "d.none"}`:                                 0,
		`{cleanupOrphaned: "d.plain"}`:                                0,
		`{cleanupOrphaned: "d.c", startingFromKey: {k: 10}}`:          0,
		`{cleanupOrphaned: "d.c", startingFromKey: {other: 1}}`:       mongoerr.CommandFailed,
		`{cleanupOrphaned: "d"}`:                                      mongoerr.InvalidNamespace,
		`{cleanupOrphaned: 1}`:                                        mongoerr.TypeMismatch,
		`{cleanupOrphaned: "d.c", startingFromKey: {k: 1}, other: 1}`: mongoerr.IDLUnknownField,
	} {
		if err := run(t.Context(), text); (err == nil) != (code == 0) || err != nil && !mongoerr.Is(err, code) {
			t.Errorf("%s: %v", text, err)
		}
	}
	short, cancel := context.WithTimeout(t.Context(), 3*cleanupPause)
	defer cancel()
	if err := run(short, `{cleanupOrphaned: "d.c"}`); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while a range is left: %v", err)
	}
	answered := make(chan error)
	go func() { answered <- run(t.Context(), `{cleanupOrphaned: "d.c"}`) }()
	hide(schema.HiddenRange{ShardRange: high, Operation: 8, Receiving: true})
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
