package importer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
)

// TestRestart: an import that is begun anew drops what it has made, and nothing else.
func TestRestart(t *testing.T) {
	t.Parallel()
	from, to := startSet(t, "from"), startSet(t, "to")
	from.run("d", `{"insert":"c","documents":[{"_id":1},{"_id":2}]}`)
	from.run("d", `{"create":"series","timeseries":{"timeField":"t"}}`)
	from.run("d", `{"insert":"series","documents":[{"t":{"$date":"2026-01-01T00:00:00Z"}}]}`)
	to.run("d", `{"insert":"own","documents":[{"_id":9}]}`)
	o := Options{From: from.uri(), To: to.uri(), Parallel: 1, Tell: func(string) {}}
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { done <- Run(ctx, o) }()
	waitFor(t, to, "d", `{"count":"c","query":{}}`)
	stop()
	<-done
	to.run("d", `{"insert":"c","documents":[{"_id":"not of the source"}]}`)
	o.CutOver, o.Block = true, true
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), ErrDiffers.Error()) {
		t.Fatalf("a target that was written to: %v", err)
	}
	o.Restart = true
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if n := bson.ClampToInt64(to.run("d", `{"count":"own","query":{}}`).Lookup("n")); n != 1 {
		t.Error("the target's own collection is gone")
	}
	to.run("d", `{"drop":"own"}`)
	equal(t, from, to)
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "was verified already") {
		t.Errorf("an import that is done: %v", err)
	}
}

// TestRestartKeepsForeign: what others have made under a name that the import has listed, and not made
// yet, is neither dropped nor written to.
func TestRestartKeepsForeign(t *testing.T) {
	t.Parallel()
	from, to := startSet(t, "from"), startSet(t, "to")
	from.run("a", `{"insert":"x","documents":[{"_id":1}]}`)
	from.run("b", `{"insert":"y","documents":[{"_id":1}]}`)
	to.run("b", `{"create":"y"}`)
	o := Options{From: from.uri(), To: to.uri(), Parallel: 1, Tell: func(string) {}, Once: true}
	ends := func(restart bool, want string) {
		t.Helper()
		o.Restart = restart
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the target has "+want+" already") {
			t.Errorf("restart %t: %v", restart, err)
		}
	}
	for _, phase := range []string{phaseDefine, phaseCopy} {
		ends(false, "b.y") // and the row of a.x is stored
		to.run("a", `{"insert":"x","documents":[{"_id":"of others"}]}`)
		to.run(ownDB, fmt.Sprintf(`{"update":"state","updates":[{"q":{"_id":"import"},"u":{"$set":{"phase":%q}}}]}`, phase))
		if phase == phaseCopy {
			ends(false, "a.x")
		}
		ends(true, "a.x")
		if n := bson.ClampToInt64(to.run("a", `{"count":"x","query":{"_id":"of others"}}`).Lookup("n")); n != 1 {
			t.Errorf("phase %s: the collection of others is gone", phase)
		}
		to.run("a", `{"drop":"x"}`)
	}
	to.run("b", `{"drop":"y"}`)
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	equal(t, from, to)
}

// TestRate: a bound on the bytes of a second holds.
func TestRate(t *testing.T) {
	t.Parallel()
	from, to := startSet(t, "from"), startSet(t, "to")
	for i := range 3 {
		from.run("d", fmt.Sprintf(`{"insert":"c","documents":[{"_id":%d,"text":%q}]}`, i, strings.Repeat("x", 100_000)))
	}
	began := time.Now()
	o := Options{From: from.uri(), To: to.uri(), Parallel: 1, Tell: func(string) {}, Once: true, Rate: 500_000, batch: 1}
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("300 kB were copied in %s, at 500 kB a second", took)
	}
	equal(t, from, to)
}

// TestIdentifyNeedsRole: a source that cannot be told from others of its name is refused.
func TestIdentifyNeedsRole(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("c2VjcmV0c2VjcmV0"), 0o400); err != nil {
		t.Fatal(err)
	}
	from, to := startSet(t, "from", "--keyFile", key), startSet(t, "to")
	from.run("admin", `{"createUser":"root","pwd":"secret","roles":["root"]}`)
	uri := func(user string) *client.URI {
		u, err := client.ParseURI("mongodb://"+user+":secret@"+from.address+"/?directConnection=true", client.Primary)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	root, _, err := uri("root").Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	(&peer{t, from.address, root}).run("admin", `{"createUser":"reader","pwd":"secret","roles":["readAnyDatabase"]}`)
	o := Options{From: uri("reader"), To: to.uri(), Parallel: 1, Tell: func(string) {}, Once: true}
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "clusterMonitor") {
		t.Errorf("a user who may not ask for the set's id: %v", err)
	}
	(&peer{t, from.address, root}).run("admin", `{"grantRolesToUser":"reader","roles":["clusterMonitor"]}`)
	if err := Run(t.Context(), o); err != nil {
		t.Error(err)
	}
}
