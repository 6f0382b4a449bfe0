package node

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// contextLog keeps which lines came with the context of a command, whose
// connection the server's log names.
type contextLog struct {
	slog.Handler
	with, without []string
}

type ofCommand struct{}

func (l *contextLog) Handle(ctx context.Context, r slog.Record) error {
	if ctx.Value(ofCommand{}) != nil {
		l.with = append(l.with, r.Message)
	} else {
		l.without = append(l.without, r.Message)
	}
	return nil
}

// TestLinesOfCommandsNameTheirConnection holds that what a command logs comes with its
// context.
func TestLinesOfCommandsNameTheirConnection(t *testing.T) {
	n, client := withData(t)
	log := &contextLog{Handler: slog.NewTextHandler(t.Output(), nil)}
	n.Log = slog.New(log)
	ctx := context.WithValue(t.Context(), ofCommand{}, true)
	run := func(db, text string) bson.Doc {
		body, err := bson.ParseJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		return n.Dispatcher.Dispatch(ctx, &command.Request{Client: client, DB: db, Body: body}).Body
	}
	for _, text := range []string{
		`{"create": "w", "validator": {"a": 1}, "validationAction": "warn"}`,
		`{"insert": "w", "documents": [{"_id": 1, "at": "no date"}]}`,
		`{"update": "w", "updates": [{"q": {"_id": 1}, "u": {"$set": {"b": 1}}}]}`,
		`{"findAndModify": "w", "query": {"_id": 1}, "update": {"$set": {"b": 2}}}`,
		`{"aggregate": "w", "pipeline": [{"$set": {"_id": 2}}, {"$merge": "w"}], "cursor": {}}`,
		`{"aggregate": "w", "pipeline": [{"$out": "w"}], "cursor": {}}`,
		`{"createIndexes": "w", "indexes": [{"key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 10}]}`,
	} {
		if reply := run("d", text); !reply.Lookup("ok").Truthy() {
			t.Errorf("%s: %s", text, reply)
		}
	}
	if len(log.without) > 0 {
		t.Errorf("without a context: %q", log.without)
	}
	for _, want := range []string{"Document would fail validation"} {
		if !slices.Contains(log.with, want) {
			t.Errorf("no line %q in %q", want, log.with)
		}
	}
}
