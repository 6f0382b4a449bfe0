package replicaset

import (
	"fmt"
	"syscall"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A build waits for its commit quorum: where a member of it hangs, the index does not
// become ready, until setIndexCommitQuorum asks for fewer members. What the set can never
// meet is refused at once.
func TestCommitQuorum(t *testing.T) {
	w := start(t)
	p := w.primary(-1)
	db := w.clients[p].Database("app")
	create := func(coll, name string, quorum any) (reply bson.M, err error) {
		err = db.RunCommand(t.Context(), bson.D{{Key: "createIndexes", Value: coll},
			{Key: "indexes", Value: bson.A{bson.D{{Key: "key", Value: bson.D{{Key: name, Value: 1}}}, {Key: "name", Value: name}}}},
			{Key: "commitQuorum", Value: quorum}}).Decode(&reply)
		return reply, err
	}
	set := func(name string, quorum any) error {
		return db.RunCommand(t.Context(), bson.D{{Key: "setIndexCommitQuorum", Value: "c"}, {Key: "indexNames", Value: bson.A{name}}, {Key: "commitQuorum", Value: quorum}}).Err()
	}
	if _, err := db.Collection("c", options.Collection()).InsertOne(t.Context(), bson.D{{Key: "a", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		quorum any
		code   int32
	}{{-1, 9}, {51, 9}, {"", 9}, {4, 278}, {"nosuch", 79}} {
		if _, err := create("c", "refused", of.quorum); code(err) != of.code {
			t.Errorf("commitQuorum %v: %v", of.quorum, err)
		}
	}
	for i, quorum := range []any{0, 1, 3, "majority", "votingMembers"} {
		name := fmt.Sprint("q", i)
		if r, err := create("c", name, quorum); err != nil || fmt.Sprint(r["commitQuorum"]) != fmt.Sprint(quorum) {
			t.Errorf("commitQuorum %v: %v, %v", quorum, r, err)
		}
		if r, err := create("c", name, quorum); err != nil || r["commitQuorum"] != nil {
			t.Errorf("commitQuorum %v of an index that exists: %v, %v", quorum, r, err)
		}
	}
	if err := set("q0", 1); code(err) != 27 {
		t.Errorf("without a build: %v", err)
	}
	away := (p + 1) % 3
	if err := syscall.Kill(w.members[away].PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(w.members[away].PID(), syscall.SIGCONT)
	built := make(chan error, 1)
	go func() {
		_, err := create("c", "a", "votingMembers")
		built <- err
	}()
	until(t, "a build that can be changed", func() error { return set("a", 3) })
	for range 3 { // none can have ended it
		if err := set("a", "votingMembers"); err != nil {
			t.Errorf("the build does not wait: %v", err)
		}
	}
	if err := set("a", 4); code(err) != 278 {
		t.Errorf("four of three: %v", err)
	}
	if err := set("a", "majority"); err != nil {
		t.Fatal(err)
	}
	if err := <-built; err != nil {
		t.Error(err)
	}
}
