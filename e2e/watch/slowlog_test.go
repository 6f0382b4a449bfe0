package watch

import (
	"context"
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// held is for how long what is waited for is held up from when the operation is seen to run, and told
// how much of it a line must have.
const (
	held = 300 * time.Millisecond
	told = 50 * time.Millisecond
)

// waited returns the waits in microseconds that the log of a server has of the operation with a
// comment, and the whole line.
func waited(t *testing.T, s *testkit.Server, comment string) (waits map[string]int64, line string) {
	t.Helper()
	until(t, "the line of "+comment, func() bool {
		for text := range strings.Lines(s.Output()) {
			var l struct {
				Msg  string
				Attr struct {
					Command struct{ Comment string }
					Waits   map[string]int64
				}
			}
			if strings.Contains(text, `"Slow query"`) && json.Unmarshal([]byte(text), &l) == nil && l.Attr.Command.Comment == comment {
				waits, line = l.Attr.Waits, text
				return true
			}
		}
		return false
	})
	return waits, line
}

// afterwards calls f when an operation with a comment has run on a server for a while. The caller
// waits for what it returns.
func afterwards(t *testing.T, s *testkit.Server, comment string, f func()) (called <-chan struct{}) {
	t.Helper()
	admin, ended := s.Direct().Database("admin"), make(chan struct{})
	go func() {
		defer close(ended)
		seen := func() bool {
			var now []bson.Raw // of a router its own: a shard may be stopped
			cursor, err := admin.Aggregate(t.Context(), bson.A{bson.D{{Key: "$currentOp", Value: bson.D{{Key: "localOps", Value: true}}}}, bson.D{{Key: "$match", Value: bson.D{{Key: "command.comment", Value: comment}}}}})
			if err == nil {
				err = cursor.All(t.Context(), &now)
			}
			return err != nil || len(now) > 0
		}
		for !seen() {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(held)
		f()
	}()
	return ended
}

// stopped has a process do nothing while a command with a comment runs by another one, which asks it.
func stopped(t *testing.T, s, asked *testkit.Server, db *mongo.Database, command bson.D, comment string) {
	t.Helper()
	if err := syscall.Kill(s.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goesOn := afterwards(t, asked, comment, func() { _ = syscall.Kill(s.PID(), syscall.SIGCONT) })
	run(t, db, command)
	<-goesOn
}

func insert(id int, comment string) bson.D {
	return bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: bson.A{bson.D{{Key: "_id", Value: id}}}}, {Key: "comment", Value: comment}}
}

// On a set an insert waits for the majority, and an update for a transaction that has its document.
func TestSlowQuerySaysWaitsOfSet(t *testing.T) {
	config := bson.A{}
	var members []*testkit.Server
	for i := range 2 {
		m := testkit.Start(t, "--replSet", "rs0", "--slowms", "-1")
		members = append(members, m)
		config = append(config, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: m.Host()}, {Key: "priority", Value: 1 - i}})
	}
	first := members[0]
	run(t, first.Direct().Database("admin"), bson.D{{Key: "replSetInitiate", Value: bson.D{{Key: "_id", Value: "rs0"}, {Key: "members", Value: config}}}})
	client := testkit.Connect(t, options.Client().ApplyURI("mongodb://"+first.Host()+","+members[1].Host()+"/?replicaSet=rs0"))
	db := client.Database("d")
	until(t, "both members", func() bool {
		return db.RunCommand(t.Context(), bson.D{{Key: "insert", Value: "c"}, {Key: "documents", Value: bson.A{bson.D{}}}, {Key: "writeConcern", Value: bson.D{{Key: "w", Value: 2}, {Key: "wtimeout", Value: 1000}}}}).Err() == nil
	})

	stopped(t, members[1], first, db, insert(1, "majority"), "majority")
	if w, line := waited(t, first, "majority"); w["majority"] < told.Microseconds() || w["conflict"] != 0 || !strings.Contains(line, "waitForWriteConcernDurationMillis") {
		t.Errorf("of an insert that waited for the majority: %s", line)
	}

	update := func(comment string) bson.D {
		return bson.D{{Key: "update", Value: "c"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "u", Value: bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}}}}}}, {Key: "comment", Value: comment}}
	}
	session, err := client.StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(t.Context())
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	in := mongo.NewSessionContext(t.Context(), session)
	if err := db.RunCommand(in, update("in the transaction")).Err(); err != nil {
		t.Fatal(err)
	}
	committed := afterwards(t, first, "conflict", func() { _ = session.CommitTransaction(context.WithoutCancel(in)) })
	run(t, db, update("conflict"))
	<-committed
	if w, line := waited(t, first, "conflict"); w["conflict"] < told.Microseconds() {
		t.Errorf("of an update that waited for a transaction: %s", line)
	}
	if w, line := waited(t, first, "in the transaction"); w["conflict"] != 0 {
		t.Errorf("of an update that nobody was in the way of: %s", line)
	}
}

// Through a router the line of the router says that it waited for shards, the shard's that it has
// waited for the log or the majority.
func TestSlowQuerySaysWaitsOfCluster(t *testing.T) {
	config := testkit.Start(t, "--configsvr", "--replSet", "cfg", "--initiate")
	shard := testkit.Start(t, "--shardsvr", "--replSet", "s0", "--initiate", "--slowms", "-1")
	router := testkit.StartRouter(t, "cfg/"+config.Host(), "--slowms", "-1")
	run(t, router.Client().Database("admin"), bson.D{{Key: "addShard", Value: "s0/" + shard.Host()}, {Key: "name", Value: "s0"}})
	db := router.Client().Database("d")
	run(t, db, insert(0, "first"))
	stopped(t, shard, router, db, insert(1, "shards"), "shards")
	if w, line := waited(t, router, "shards"); w["shards"] < told.Microseconds() || !strings.Contains(line, "remoteOpWaitMillis") || w["majority"] != 0 {
		t.Errorf("of an insert that waited for a shard: %s", line)
	}
	if w, line := waited(t, shard, "shards"); w["shards"] != 0 || w["majority"] == 0 {
		t.Errorf("of an insert on the shard: %s", line)
	}
}
