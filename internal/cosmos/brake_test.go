package cosmos

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/replay"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/expire"
	"github.com/mayflydb/mayfly/internal/storage"
)

// slowCommits is a Committer whose commits take a while, so that a removal is long.
type slowCommits struct {
	*replay.Recorder
	takes *atomic.Int64
}

func (s slowCommits) Commit(ctx context.Context, e *catalog.Effect, d storage.Durability) error {
	time.Sleep(time.Duration(s.takes.Load()))
	return s.Recorder.Commit(ctx, e, d)
}

// TestBrakes holds invariant brake (package catalog) for containers: after the answer to
// a request that keeps items from expiring, none goes, also where a removal was in the
// middle of many. Where nothing keeps them from it, windows of items go in one step,
// which nobody can be in the middle of. (Not in virtual time, which stands still while a request waits for a
// gate.)
func TestBrakes(t *testing.T) {
	const definition = `{"id":"c","partitionKey":{"paths":["/pk"]}%s}`
	const slow, items = 5 * time.Millisecond, 800
	for _, brake := range []struct{ method, target, body string }{
		{"PUT", "/dbs/d/colls/c", fmt.Sprintf(definition, "")},
		{"PUT", "/dbs/d/colls/c", fmt.Sprintf(definition, `,"defaultTtl":-1`)},
		{"PUT", "/dbs/d/colls/c", fmt.Sprintf(definition, `,"defaultTtl":1000000`)},
		{"DELETE", "/dbs/d/colls/c", ""},
		{"DELETE", "/dbs/d", ""},
	} {
		t.Run(brake.method+" "+brake.target+brake.body, func(t *testing.T) {
			var takes atomic.Int64
			a := newAccountAround(t, func(r *replay.Recorder) catalog.Committer { return slowCommits{r, &takes} })
			defer a.close()
			a.must(201, "POST", "/dbs", `{"id":"d"}`, nil)
			a.must(201, "POST", "/dbs/d/colls", fmt.Sprintf(definition, ""), nil)
			for i := range items {
				a.must(201, "POST", "/dbs/d/colls/c/docs", fmt.Sprintf(`{"id":"%d","pk":"a"}`, i), onA)
			}
			a.must(200, "PUT", "/dbs/d/colls/c", fmt.Sprintf(definition, `,"defaultTtl":1`), nil)
			takes.Store(int64(slow))
			d := command.NewDispatcher(slog.New(slog.DiscardHandler))
			m := expire.New(expire.Options{Catalog: a.cat, Exec: a.exec, Dispatcher: d, Log: slog.New(slog.DiscardHandler)})
			if err := d.Params.SetAtStartup("ttlMonitorSleepSecs", "1"); err != nil {
				t.Fatal(err)
			}
			m.Start()
			defer m.Stop()
			for begun := time.Now(); m.Stats.Deleted.Load() < items/10; time.Sleep(slow / 10) {
				if time.Since(begun) > 20*time.Second {
					t.Fatalf("%d items of %d are gone", m.Stats.Deleted.Load(), items)
				}
			}
			status := 200
			if brake.method == "DELETE" {
				status = 204
			}
			a.must(status, brake.method, brake.target, brake.body, nil)
			time.Sleep(slow) // for who counts the unit that the brake has waited for
			gone := m.Stats.Deleted.Load()
			if gone >= items {
				t.Fatalf("all %d were gone before the brake", gone)
			}
			time.Sleep(20 * slow)
			if more := m.Stats.Deleted.Load() - gone; more != 0 {
				t.Errorf("%d items went after the answer, %d before", more, gone)
			}
		})
	}
}
