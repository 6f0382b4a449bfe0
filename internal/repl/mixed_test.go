package repl

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/storage"
)

// older is the machine of a member whose build is older than those of the others: each
// effect that it gets has a version above those that it can read.
type older struct{ Machine }

func (o older) Apply(run []Change) error {
	run = slices.Clone(run)
	for i := range run {
		if p := &run[i].Payload; len(*p) > 0 {
			*p = slices.Concat([]byte{0xff}, (*p)[1:])
		}
	}
	return o.Machine.Apply(run)
}

// A set in which one member has an older build, and the others write effects of a version
// that it cannot read: it names the entry and the version and ends, has nothing of the entry
// and nothing behind it, and the others go on. With their build it goes on where it was (rule
// 20).
func TestMixedSet(t *testing.T) {
	ms := newMachines(t)
	failed := make(chan error, 1)
	ms.failed = func(host string, err error) {
		if host != "c:1" {
			t.Errorf("%s: %v", host, err)
			return
		}
		failed <- err
	}
	all := map[string]*process{}
	config := &Config{Set: "rs0", Version: 1, Election: 500 * time.Millisecond}
	for i, host := range []string{"a:1", "b:1", "c:1"} {
		all[host] = ms.member(host, storage.NewMemFS())
		config.Members = append(config.Members, MemberConfig{ID: int32(i), Host: host, Priority: float64(2 - i), Votes: 1})
	}
	a, c := all["a:1"], all["c:1"]
	if err := a.Initiate(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	o, err := a.insert(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.WaitConcern(t.Context(), o.Last(), Concern{N: 3}); err != nil {
		t.Fatal(err)
	}
	if err := c.replica.Do(t.Context(), func(g *Group) error {
		g.Machine = older{g.Machine}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	known := c.State().Applied
	o, err = a.insert(2)
	if err != nil {
		t.Fatal(err)
	}
	var ended error
	until(t, "the member with the older build ends", func() bool {
		select {
		case ended = <-failed:
			return true
		default:
			return false
		}
	})
	for _, want := range []string{"apply entry", "version 255", "reads those up to"} {
		if !strings.Contains(ended.Error(), want) {
			t.Errorf("the member ends with %v", ended)
		}
	}
	for id := range int32(10) {
		if o, err = a.insert(3 + id); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.WaitConcern(t.Context(), o.Last(), Concern{Mode: Majority}); err != nil {
		t.Errorf("the others: %v", err)
	}
	disk := c.kill()
	place, err := storage.Place(disk, "db")
	if err != nil {
		t.Fatal(err)
	}
	e, err := storage.Open(storage.Options{Dir: place, FS: disk, CacheBytes: 1 << 20, MemtableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	held, err := catalog.Open(e, catalog.Options{Committer: Local{}})
	if err != nil {
		t.Fatal(err)
	}
	if at := e.Applied(); at > known.Index || held.Lookup(testNamespace).Count() != 1 {
		t.Errorf("it has %d documents at %d, and ended behind %d", held.Lookup(testNamespace).Count(), at, known.Index)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	c = ms.member("c:1", disk)
	if err := a.WaitConcern(t.Context(), o.Last(), Concern{N: 3}); err != nil || c.count() != 12 {
		t.Errorf("with the others' build it has %d: %v", c.count(), err)
	}
	for _, p := range []*process{a, all["b:1"], c} {
		p.kill()
	}
}
