package importer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestForgotten: an importer whose sessions the target has forgotten, as it slept for long, writes
// nothing when another one has claimed the target. To a server, a session that it has forgotten and
// one that it has never seen are alike.
func TestForgotten(t *testing.T) {
	t.Parallel()
	from, to := startSet(t, "from"), startSet(t, "to")
	claimed := func() *Importer {
		im := &Importer{o: Options{From: from.uri(), To: to.uri(), Parallel: 1}}
		if err := errors.Join(im.open(t.Context()), im.claim(t.Context())); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { im.from.close(); im.to.close() })
		return im
	}
	old := claimed()
	to.run("d", `{"create":"c"}`)
	made, err := named(t.Context(), old.to, "d", "c")
	if err != nil {
		t.Fatal(err)
	}
	r := &row{db: "d", coll: "c", target: made.uuid, uuid: bson.NewUUID()}
	docs := func(n int32) []bson.Doc { return []bson.Doc{new(bson.Builder).Int32("_id", n).Finish()} }
	writes := map[string]func(ctx context.Context) error{
		"a token": func(ctx context.Context) error { return old.storeToken(ctx, bson.Empty) },
		"a phase": func(ctx context.Context) error { return old.enter(ctx, phaseDone) },
	}
	late := map[string]func(ctx context.Context) error{
		"a batch":        func(ctx context.Context) error { return old.insert(ctx, old.workers[0], r, docs(1)) },
		"progress":       func(ctx context.Context) error { return storeRow(ctx, old.applier, r) },
		"a session kept": old.keepSessions,
		"a drop": func(ctx context.Context) error {
			_, err := old.ddl(ctx, "d", new(bson.Builder).String("drop", "c").Finish())
			return err
		},
	}
	young := claimed()
	for _, w := range append([]*writer{old.main, old.applier}, old.workers...) {
		w.id = bson.NewUUID()
	}
	for name, write := range writes {
		if err := write(t.Context()); !errors.Is(err, errOvertaken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	old.hold.seen = old.hold.seen.Add(-time.Hour) // as if it had slept
	for name, write := range late {
		if err := write(t.Context()); !errors.Is(err, errOvertaken) {
			t.Errorf("%s, late: %v", name, err)
		}
	}
	young.hold.seen = young.hold.seen.Add(-time.Hour)
	if err := errors.Join(young.keepSessions(t.Context()), young.storeToken(t.Context(), bson.Empty), young.insert(t.Context(), young.workers[0], r, docs(2))); err != nil {
		t.Errorf("who has the target: %v", err)
	}
	if n := bson.ClampToInt64(to.run("d", `{"count":"c","query":{}}`).Lookup("n")); n != 1 {
		t.Errorf("%d documents", n)
	}
	if n := bson.ClampToInt64(to.run(ownDB, `{"count":"progress","query":{}}`).Lookup("n")); n != 0 {
		t.Errorf("%d rows", n)
	}
}
