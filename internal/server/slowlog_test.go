package server_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/server/servertest"
)

// slowLine is what a line about a slow operation has.
type slowLine struct {
	Type, NS, PlanSummary, QueryHash, PlanCacheShapeHash, PlanCacheKey string
	IsFromUserConnection                                               bool
	Waits                                                              map[string]int64
	WaitForWriteConcernDurationMillis                                  *int64
	WorkingMillis, DurationMillis                                      *int64
}

// The line of a slow operation says with which plan it ran, and for what it waited: for a lock, for
// another write of its document, and for the log; and not for what it did not wait.
func TestSlowQuerySaysWaits(t *testing.T) {
	s := servertest.Start(t, "--slowms", "-1")
	connect := func() *client.Conn {
		c, err := client.Connect(t.Context(), client.Options{Address: s.Address})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	a, b := connect(), connect()
	run := func(c *client.Conn, db, text string) bson.Doc {
		t.Helper()
		body, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := c.Run(t.Context(), db, body)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return reply
	}
	run(a, "d", `{"createIndexes": "c", "indexes": [{"key": {"n": 1}, "name": "n"}, {"key": {"n": 1, "m": 1}, "name": "nm"}]}`)
	run(a, "d", `{"insert": "c", "documents": [{"_id": 1, "n": 1}], "comment": "free"}`)
	run(a, "d", `{"find": "c", "filter": {"n": 1}, "comment": "found"}`)
	run(a, "admin", `{"fsync": 1, "lock": true}`)
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(b, "d", `{"insert": "c", "documents": [{"_id": 2}], "comment": "locked", "writeConcern": {"j": true}}`)
	}()
	for ops := 0; ops == 0; {
		ops = run(a, "admin", `{"currentOp": 1, "waitingForLock": true}`).Lookup("inprog").Doc().Len()
	}
	time.Sleep(5 * time.Millisecond) // nothing else happens meanwhile
	run(a, "admin", `{"fsyncUnlock": 1}`)
	<-done
	s.Stop()

	lines := map[string]slowLine{}
	log, err := os.ReadFile(s.Log)
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(log)) {
		var l struct {
			Msg  string
			Attr json.RawMessage
		}
		if json.Unmarshal([]byte(text), &l) != nil || l.Msg != "Slow query" {
			continue
		}
		var of struct{ Command struct{ Comment string } }
		var line slowLine
		if err := json.Unmarshal(l.Attr, &of); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(l.Attr, &line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		lines[of.Command.Comment] = line
	}
	if l := lines["found"]; !strings.HasPrefix(l.PlanSummary, "IXSCAN") || l.QueryHash == "" || l.QueryHash != l.PlanCacheShapeHash || l.PlanCacheKey == "" || !l.IsFromUserConnection || l.NS != "d.c" || len(l.Waits) > 0 {
		t.Errorf("of a find: %+v", l)
	}
	if l := lines["free"]; l.Waits["lock"] != 0 || l.WorkingMillis == nil || l.DurationMillis == nil {
		t.Errorf("of an insert that meets nobody: %+v", l)
	}
	l := lines["locked"]
	if l.Waits["lock"] < 4000 || l.WorkingMillis == nil || *l.DurationMillis-*l.WorkingMillis < 4 {
		t.Errorf("of an insert that waited for a lock: %+v, %d of %d ms", l, l.WorkingMillis, l.DurationMillis)
	}
	if l.Waits["disk"] == 0 {
		t.Errorf("of an insert that waited for the log: %+v", l)
	}
	if len(l.Waits) != 2 || l.WaitForWriteConcernDurationMillis != nil {
		t.Errorf("it waited for more than it had to: %+v", l)
	}
}
