package node

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/memory"
)

// TestSlowQuerySaysWaitForMemory: the line of an operation that had to wait for the memory that
// operations share says so, and for how long.
func TestSlowQuerySaysWaitForMemory(t *testing.T) {
	n, client := withData(t)
	budget := memory.NewBudget(memory.MinBudget)
	var log bytes.Buffer
	n.Exec.Memory, n.Exec.SpillDir, n.Dispatcher.Log = budget, t.TempDir(), slog.New(slog.NewJSONHandler(&log, nil))
	run := func(text string) bson.Doc {
		body := new(bson.Builder).Fields(bson.MustParse(text)).String("$db", "d").Finish()
		r := n.Dispatcher.Dispatch(t.Context(), &command.Request{Client: client, Body: body})
		return r.Body
	}
	var docs []string
	for range 100 {
		docs = append(docs, `{"pad": "`+strings.Repeat("x", 1000)+`"}`)
	}
	if r := run(`{"insert": "c", "documents": [` + strings.Join(docs, ",") + `]}`); r.Lookup("n").Int32() != 100 {
		t.Fatal(r)
	}
	n.Dispatcher.Profiler.SetSlow(-1, 1)
	var others memory.Account
	others.Open(budget)
	all := others.Hold(nil)
	all.Book(budget.Stats().Limit)
	const held = 20 * time.Millisecond
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for budget.Stats().Operations.Waiting == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(held)
		others.Close()
	}()
	if r := run(`{"aggregate": "c", "pipeline": [{"$group": {"_id": "$_id", "pad": {"$first": "$pad"}}}, {"$count": "n"}], "cursor": {}}`); bson.ToDouble(r.Lookup("ok")) != 1 {
		t.Error(r)
	}
	<-ended
	var line struct {
		Waits         map[string]int64
		WorkingMillis int64
	}
	if err := json.Unmarshal(log.Bytes(), &line); err != nil {
		t.Fatalf("%v: %s", err, &log)
	}
	if len(line.Waits) != 1 || line.Waits["memory"] < held.Microseconds() {
		t.Errorf("%s", &log)
	}
}
