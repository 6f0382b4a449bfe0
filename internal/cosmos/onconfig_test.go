package cosmos

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// TestRetainInTheWay: while a container waits until all shards keep their logs, one of which does
// not answer, numbers are given, and another definition waits no longer than its client.
func TestRetainInTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAccount(t)
		defer a.close()
		d := command.NewDispatcher(slog.New(slog.DiscardHandler))
		for _, name := range []string{"_configsvrShardCollection", "_configsvrCreateIndexes", "_configsvrCollMod"} {
			d.Registry.Register(&command.Command{Name: name, Help: "done", Flags: command.AdminOnly, Fields: command.NewFields(name, command.Value(command.Any(""))).Lenient(), Run: func(context.Context, *command.Op) error { return nil }})
		}
		answers := make(chan struct{})
		_, err := NewConfig(Options{Catalog: a.cat, Exec: a.exec, Dispatcher: d, Log: slog.New(slog.DiscardHandler)}, Config{
			Key:     func(string) (bson.Doc, error) { return containerKey, nil },
			Names:   func(context.Context, string) ([]string, error) { return nil, nil },
			Indexes: func(context.Context, string) ([]string, error) { return nil, nil },
			Retain: func(ctx context.Context, _ time.Duration) error {
				select {
				case <-answers:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		do := func(ctx context.Context, body bson.Doc) bson.Doc {
			r := d.Dispatch(ctx, &command.Request{Client: inside, DB: adminDB, Body: body})
			defer r.Release()
			return r.Body.Clone()
		}
		post := func(path, body string) bson.Doc {
			return new(bson.Builder).Int32(onConfig, 1).String("method", "POST").String("path", path).OpenDoc("headers").Close().Binary("body", 0, []byte(body)).Finish()
		}
		status := func(reply bson.Doc) int64 { return bson.ClampToInt64(reply.Lookup("status")) }
		if r := do(t.Context(), post("/dbs", `{"id":"d"}`)); status(r) != 201 {
			t.Fatal(r)
		}
		made := make(chan bson.Doc, 1)
		go func() {
			made <- do(t.Context(), post("/dbs/d/colls", `{"id":"c","partitionKey":{"paths":["/pk"]},"changeFeedPolicy":{"retentionDuration":10}}`))
		}()
		synctest.Wait()
		if r := do(t.Context(), new(bson.Builder).String(numbersOnConfig, "rid").Finish()); r.Lookup("top").Int64() != numbersBlock {
			t.Errorf("numbers: %s", r)
		}
		impatient, end := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the client has gone"))
		defer end()
		began := time.Now()
		if r := do(impatient, post("/dbs", `{"id":"e"}`)); status(r) == 201 || time.Since(began) != time.Second {
			t.Errorf("another definition, after %v: %s", time.Since(began), r)
		}
		close(answers)
		if r := <-made; status(r) != 201 {
			t.Errorf("the container: %s", r)
		}
		if r := do(t.Context(), post("/dbs", `{"id":"e"}`)); status(r) != 201 {
			t.Errorf("afterwards: %s", r)
		}
	})
}
