package importer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
)

// TestCopyBehindEvents: what is deleted at the source while a batch with it is on its way to the
// target is not there in the end.
func TestCopyBehindEvents(t *testing.T) {
	t.Parallel()
	from, to := startSet(t, "from"), startSet(t, "to")
	from.run("d", `{"insert":"c","documents":[{"_id":1},{"_id":2}]}`)
	deleted := false
	g := &gate{slow: func() time.Duration {
		if deleted {
			return 0
		}
		deleted = true
		from.run("d", `{"delete":"c","deletes":[{"q":{"_id":1},"limit":1}]}`)
		return 300 * time.Millisecond // in which the delete is not applied
	}}
	if err := newEnds(t, from, to).run(t.Context(), Options{Parallel: 1, CutOver: true, Block: true}, g); err != nil {
		t.Fatal(err)
	}
	if !deleted {
		t.Error("no batch was copied")
	}
	equal(t, from, to)
}

// TestOneImporter: the last batch of an importer that was killed arrives when its successor has
// applied the delete of what is in it.
func TestOneImporter(t *testing.T) {
	t.Parallel()
	from, to := startSet(t, "from"), startSet(t, "to")
	from.run("d", `{"insert":"c","documents":[{"_id":1},{"_id":2}]}`)
	both := newEnds(t, from, to)
	o := Options{Parallel: 1, Block: true}
	dies := &gate{when: copies, how: dieLate}
	if err := both.run(t.Context(), o, dies); err == nil || !dies.dead.Load() {
		t.Fatal(err)
	}
	from.run("d", `{"delete":"c","deletes":[{"q":{"_id":1},"limit":1}]}`)
	then := from.run("admin", `{"appendOplogNote":1,"data":{}}`).Lookup("operationTime").Timestamp()
	done := make(chan error, 1)
	go func() { done <- both.run(t.Context(), o, &gate{}) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	target := to.end("the target")
	for at := uint64(0); at < then; {
		if err := client.Sleep(ctx, 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		s, err := readState(ctx, target)
		if err != nil {
			t.Fatal(err)
		}
		at = tokenTime(s.token)
	}
	dies.deliver()
	if n := bson.ClampToInt64(to.run("d", `{"count":"c","query":{"_id":1}}`).Lookup("n")); n != 0 {
		t.Error("the late batch was inserted")
	}
	if err := AskCutOver(t.Context(), Options{To: to.uri(), Block: true}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	equal(t, from, to)
}

// TestTargetRefusesName: a batch that the target refuses, as its collection has another name for a
// moment, is inserted later. What somebody else has written there differs, and takes the request to
// cut over back.
func TestTargetRefusesName(t *testing.T) {
	t.Parallel()
	from, to := startSet(t, "from"), startSet(t, "to")
	from.run("d", `{"insert":"c","documents":[{"_id":1},{"_id":2},{"_id":3},{"_id":4},{"_id":5}]}`)
	batches := 0
	g := &gate{slow: func() time.Duration {
		switch batches++; batches {
		case 2:
			to.run("admin", `{"renameCollection":"d.c","to":"d.away"}`)
		case 3:
			to.run("d", `{"insert":"away","documents":[{"_id":"more"}]}`)
			to.run("admin", `{"renameCollection":"d.away","to":"d.c"}`)
		}
		return 0
	}}
	err := newEnds(t, from, to).run(t.Context(), Options{Parallel: 1, batch: 1, CutOver: true, Block: true}, g)
	if !errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), ": 1 documents differ") || batches < 3 {
		t.Errorf("behind %d batches: %v", batches, err)
	}
	if n := bson.ClampToInt64(to.run("d", `{"count":"c","query":{}}`).Lookup("n")); n != 6 {
		t.Errorf("%d documents", n)
	}
	if s, err := readState(t.Context(), to.end("the target")); err != nil || s.cutOver || s.block {
		t.Errorf("the request to cut over: %v, %v", s, err)
	}
}
