package importer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
)

// TestRefused: what cannot be a source or a target is told before anything is written, and what is
// not equal is named.
func TestRefused(t *testing.T) {
	alone, set := startPeer(t), startSet(t, "set")
	alone.run("d", `{"insert":"c","documents":[{"_id":1},{"_id":2},{"_id":3}]}`)
	alone.run("d", `{"createIndexes":"c","indexes":[{"key":{"u":1},"name":"u","unique":true,"sparse":true}]}`)
	for name, x := range map[string]struct {
		from, to *peer
		once     bool
		says     string
	}{
		"a standalone as target":   {set, alone, true, "has to be a replica set"},
		"a standalone is followed": {alone, set, false, "import with --once"},
		"into itself":              {set, set, true, "are the same"},
	} {
		err := Run(t.Context(), Options{From: x.from.uri(), To: x.to.uri(), Once: x.once, Parallel: 1, Tell: func(string) {}})
		if err == nil || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	told := &lines{}
	o := Options{From: alone.uri(), To: set.uri(), Once: true, Parallel: 1, Tell: told.tell}
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	set.run("d", `{"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"a":1}}}]}`)
	set.run("d", `{"delete":"c","deletes":[{"q":{"_id":2},"limit":1}]}`)
	set.run("d", `{"insert":"c","documents":[{"_id":2.5},{"_id":"more"}]}`)
	set.run(ownDB, `{"update":"state","updates":[{"q":{"_id":"import"},"u":{"$set":{"phase":"cutover"}}}]}`)
	if err := Run(t.Context(), o); !errors.Is(err, ErrDiffers) {
		t.Errorf("what is not equal: %v", err)
	}
	for _, line := range []string{"_id 1: it is another", "_id 2: it is missing", "_id 2.5: it is not at the source", `_id "more": it is not at the source`} {
		if !strings.Contains(told.String(), line) {
			t.Errorf("%s is not told of in\n%s", line, told)
		}
	}
	told = &lines{}
	o.Tell = told.tell
	if err := DryRun(t.Context(), o); err != nil || !strings.Contains(told.String(), "has d.c already") {
		t.Errorf("%v\n%s", err, told)
	}
}

// TestOvertaken: of two importers of one target, the older one ends. The younger one follows events
// of more than 16 MB, and cuts over when it is asked to.
func TestOvertaken(t *testing.T) {
	from, to := startSet(t, "from"), startSet(t, "to")
	large := func(c string) bson.Doc {
		return new(bson.Builder).String("update", "c").OpenArray("updates").OpenDoc("0").OpenDoc("q").Int32("_id", 1).Close().
			OpenDoc("u").OpenDoc("$set").String("a", strings.Repeat(c, 9<<20)).Close().Close().Bool("upsert", true).Close().Close().Finish()
	}
	write := func(c string) {
		if _, err := from.c.Run(t.Context(), "d", large(c)); err != nil {
			t.Fatal(err)
		}
	}
	write("a")
	o := Options{From: from.uri(), To: to.uri(), Parallel: 1, Tell: func(string) {}}
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- Run(t.Context(), o) }()
	waitFor(t, to, "d", `{"count":"c","query":{}}`)
	write("b")
	younger := o
	younger.From, younger.To = from.uri(), to.uri()
	go func() { second <- Run(t.Context(), younger) }()
	if err := <-first; !errors.Is(err, errOvertaken) {
		t.Errorf("the older importer: %v", err)
	}
	write("c")
	if err := AskCutOver(t.Context(), Options{To: to.uri(), Block: true}); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	equal(t, from, to)
}

// waitFor waits until a count of the target's is not 0.
func waitFor(t *testing.T, p *peer, db, count string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for bson.ClampToInt64(p.run(db, count).Lookup("n")) == 0 {
		if err := client.Sleep(ctx, 10*time.Millisecond); err != nil {
			t.Fatal(fmt.Errorf("%s: %w", count, err))
		}
	}
}
