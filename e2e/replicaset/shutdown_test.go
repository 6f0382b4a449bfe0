package replicaset

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	own "github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// shutDown sends the command shutdown to a member. There is an answer only where it is
// refused: otherwise the connection ends.
func (w *set) shutDown(i int, options ...bson.E) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	return w.clients[i].Database("admin").RunCommand(ctx, append(bson.D{{Key: "shutdown", Value: 1}}, options...)).Err()
}

// freeze lets a member vote, and not take over.
func (w *set) freeze(i, seconds int) {
	w.t.Helper()
	w.admin(i, bson.D{{Key: "replSetFreeze", Value: seconds}})
}

// Where nobody can take over, the primary does not stop, and serves on. It waits until
// somebody can; with force it waits, and stops. What was acknowledged is there after each.
func TestShutdownOfPrimary(t *testing.T) {
	w := start(t)
	p := w.primary(-1)
	a, b := (p+1)%3, (p+2)%3
	c, _ := connect(t, w.members[0], options.Client())
	docs := c.Database("app").Collection("docs")
	insert := func() {
		t.Helper()
		if _, err := docs.InsertOne(t.Context(), bson.D{}); err != nil {
			t.Fatal(err)
		}
	}
	ended := func(i int) {
		t.Helper()
		if code := w.members[i].Wait(); code != config.ExitClean {
			t.Fatalf("member %d: exit code %d", i, code)
		}
	}
	const long = 600
	w.freeze(a, long)
	w.freeze(b, long)

	begun := time.Now()
	if err := w.shutDown(p, bson.E{Key: "timeoutSecs", Value: 1}); code(err) != 262 {
		t.Fatalf("nobody can take over: %v", err)
	}
	if took := time.Since(begun); took < time.Second {
		t.Errorf("it has waited for %v", took)
	}
	if got := w.primary(-1); got != p {
		t.Fatalf("the primary is %d, and was %d", got, p)
	}
	insert()

	// One that can take over is waited for.
	const some = 20
	asked := make(chan error, 1)
	go func() { asked <- w.shutDown(p, bson.E{Key: "timeoutSecs", Value: some}) }()
	select {
	case err := <-asked:
		t.Fatalf("it does not wait: %v", err)
	case <-time.After(time.Second):
	}
	w.freeze(a, 0)
	ended(p)
	if err := <-asked; code(err) == 262 {
		t.Fatal(err)
	}
	if got := w.primary(p); got != a {
		t.Fatalf("the primary is %d, and should be %d", got, a)
	}
	tells(t, w.members[p], "replication: stepped down")
	insert()
	w.members[p].Run()
	w.healthy()

	// With force it stops after the time, and asks nobody once more.
	p, a = a, p
	w.freeze(a, long)
	w.freeze(b, long)
	begun = time.Now()
	if err := w.shutDown(p, bson.E{Key: "force", Value: true}, bson.E{Key: "timeoutSecs", Value: 1}); code(err) == 262 {
		t.Fatal(err)
	}
	ended(p)
	if took := time.Since(begun); took < time.Second {
		t.Errorf("with force it has waited for %v", took)
	}
	w.freeze(a, 0)
	w.freeze(b, 0)
	insert()
	w.members[p].Run()
	w.healthy()

	// With force and somebody who can take over it hands over, and so it does on SIGTERM.
	for _, stop := range []func(p int){
		func(p int) { _ = w.shutDown(p, bson.E{Key: "force", Value: true}) },
		func(p int) { w.signal(p, syscall.SIGTERM) },
	} {
		p = w.primary(-1)
		stop(p)
		ended(p)
		tells(t, w.members[p], "replication: stepped down")
		insert()
		w.members[p].Run()
		w.healthy()
	}
	holds(t, docs, 5)
}

// The clients of a secondary that shuts down go on for timeoutSecs: hello tells them to go
// elsewhere, and all else is answered. Once they have gone, it stops; and it stops when the
// time is over, whoever is there.
func TestShutdownOfSecondary(t *testing.T) {
	w := start(t)
	p := w.primary(-1)
	s := (p + 1) % 3
	for _, c := range []struct {
		secs int
		goes bool
	}{{600, true}, {1, false}} {
		conn, err := client.Connect(t.Context(), client.Options{Address: host(w.members[s])})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		asks := func(command string) (own.Doc, error) {
			return conn.Run(t.Context(), "app", own.MustParse(command))
		}
		const find = `{"find":"docs","$readPreference":{"mode":"nearest"}}`
		if _, err := asks(find); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		asked := make(chan error, 1)
		go func() { asked <- w.shutDown(s, bson.E{Key: "timeoutSecs", Value: c.secs}) }()
		until(t, "hello to tell", func() error {
			_, err := asks(`{"hello":1}`)
			var e *mongoerr.Error
			if !errors.As(err, &e) || e.Code != mongoerr.ShutdownInProgress {
				return errors.Join(errors.New("it does not"), err)
			}
			if left := own.Doc(e.Extra).Lookup("remainingQuiesceTimeMillis"); !left.IsNumber() || own.ClampToInt64(left) > int64(c.secs)*1000 {
				t.Errorf("hello says %s", own.Doc(e.Extra))
			}
			return nil
		})
		if c.goes {
			if _, err := asks(find); err != nil {
				t.Errorf("a client of a member that stops: %v", err)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if code := w.members[s].Wait(); code != config.ExitClean {
			t.Fatalf("exit code %d", code)
		}
		if took := time.Since(begun); !c.goes && took < time.Second {
			t.Errorf("it has waited for %v", took)
		}
		<-asked
		w.members[s].Run()
		w.healthy()
	}
}
