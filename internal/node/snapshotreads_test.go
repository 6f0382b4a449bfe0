package node

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// at is a read concern snapshot, at a time unless that is 0.
func at(t uint64) string {
	if t == 0 {
		return `,"readConcern":{"level":"snapshot"}`
	}
	return fmt.Sprintf(`,"readConcern":{"level":"snapshot","atClusterTime":{"$timestamp":{"t":%d,"i":%d}}}`, t>>32, uint32(t))
}

// must is run of a command that succeeds.
func (s *testSet) must(name, db, text string) bson.Doc {
	s.t.Helper()
	r := s.run(name, db, text)
	if r.Lookup("ok").Double() != 1 || r.Has("writeErrors") {
		s.t.Fatalf("%s: %s", text, r)
	}
	return r
}

// stateBatch is what a cursor's reply has, and the time of its state.
func stateBatch(r bson.Doc) (docs string, at uint64) {
	c := r.Lookup("cursor").Doc()
	docs = c.Lookup("firstBatch").String()
	if c.Has("nextBatch") {
		docs = c.Lookup("nextBatch").String()
	}
	if v := c.Lookup("atClusterTime"); v.Type == bson.TypeTimestamp {
		at = v.Timestamp()
	}
	return docs, at
}

// TestSnapshotReads reads one state by every path while others write, and asks for
// states that are not there.
func TestSnapshotReads(t *testing.T) {
	s := newTestSet(t, "a")
	s.run("a", "admin", `{"replSetInitiate":{}}`)
	s.wait([]string{"a", "PRIMARY"})
	first := s.must("a", "d", `{"insert":"c","documents":[{"_id":1,"a":1},{"_id":2,"a":2},{"_id":3,"a":3},{"_id":4,"a":4}]}`).Lookup("operationTime").Timestamp()
	s.must("a", "d", `{"createIndexes":"c","indexes":[{"key":{"a":1},"name":"a"}]}`)
	s.must("a", "d", `{"insert":"other","documents":[{"_id":1,"of":1},{"_id":2,"of":1}]}`)
	s.must("a", "d", `{"create":"v","viewOn":"c","pipeline":[{"$match":{"a":{"$gt":1}}}]}`)
	docs, then := stateBatch(s.must("a", "d", `{"find":"c"`+at(0)+`}`))
	if then == 0 {
		t.Fatal("the reply has no atClusterTime")
	}
	queries := map[string]string{
		"scan":     `{"find":"c"%s}`,
		"index":    `{"find":"c","filter":{"a":{"$gte":2}},"projection":{"a":1,"_id":0},"sort":{"a":-1}%s}`,
		"lookup":   `{"find":"c","filter":{"_id":2}%s}`,
		"sort":     `{"find":"c","sort":{"b":1,"_id":-1}%s}`,
		"view":     `{"find":"v"%s}`,
		"count":    `{"aggregate":"c","pipeline":[{"$count":"n"}],"cursor":{}%s}`,
		"join":     `{"aggregate":"c","pipeline":[{"$lookup":{"from":"other","localField":"_id","foreignField":"of","as":"x"}}],"cursor":{}%s}`,
		"union":    `{"aggregate":"c","pipeline":[{"$unionWith":"other"},{"$sort":{"_id":1,"a":1}}],"cursor":{}%s}`,
		"none":     `{"find":"nothing"%s}`,
		"distinct": `{"distinct":"c","key":"a"%s}`,
	}
	read := func(name string) string {
		r := s.must("a", "d", fmt.Sprintf(queries[name], at(then)))
		docs, got := stateBatch(r)
		if name == "distinct" {
			docs, got = r.Lookup("values").String(), r.Lookup("atClusterTime").Timestamp()
		}
		if got != then {
			t.Errorf("%s: the time is %d, not %d", name, got, then)
		}
		return docs
	}
	was := map[string]string{}
	for name := range queries {
		was[name] = read(name)
	}
	if was["scan"] != docs || was["count"] != `[ { n: 4 } ]` || !strings.Contains(was["join"], "of: 1") {
		t.Fatal(was)
	}
	open := s.must("a", "d", `{"find":"c","batchSize":1`+at(then)+`}`)
	join := s.must("a", "d", `{"aggregate":"c","pipeline":[{"$lookup":{"from":"other","localField":"_id","foreignField":"of","as":"x"}}],"cursor":{"batchSize":0}`+at(then)+`}`)
	s.must("a", "d", `{"delete":"c","deletes":[{"q":{"_id":1},"limit":1}]}`)
	s.must("a", "d", `{"update":"c","updates":[{"q":{"_id":2},"u":{"$set":{"a":20}}}]}`)
	s.must("a", "d", `{"insert":"c","documents":[{"_id":5,"a":5}]}`)
	s.must("a", "d", `{"delete":"other","deletes":[{"q":{},"limit":0}]}`)
	s.must("a", "d", `{"insert":"nothing","documents":[{"_id":1}]}`)
	for name := range queries {
		if is := read(name); is != was[name] {
			t.Errorf("%s: was %s, is %s", name, was[name], is)
		}
	}
	if now, _ := stateBatch(s.must("a", "d", `{"find":"c"`+at(0)+`}`)); now == docs {
		t.Error("the newest state is an old one")
	}
	more := func(r bson.Doc) string { // drivers may send the read concern again, which says nothing
		docs, got := stateBatch(s.must("a", "d", fmt.Sprintf(`{"getMore":{"$numberLong":"%d"},"collection":"c"%s}`, r.Lookup("cursor").Doc().Lookup("id").Int64(), at(then+1))))
		if got != then {
			t.Errorf("a later batch is of %d", got)
		}
		return docs
	}
	if got := more(open); got != `[ { _id: 2, a: 2 }, { _id: 3, a: 3 }, { _id: 4, a: 4 } ]` {
		t.Errorf("the next batch is %s", got)
	}
	if got := more(join); got != was["join"] {
		t.Errorf("the join is %s", got)
	}
	s.refusedStates(first, then)
}

// refusedStates asks for what cannot be had.
func (s *testSet) refusedStates(first, then uint64) {
	s.t.Helper()
	refused := func(text string, code int32) {
		s.t.Helper()
		if r := s.run("a", "d", text); r.Lookup("code").Int32() != code {
			s.t.Errorf("%s: %s", text, r)
		}
	}
	refused(`{"find":"c"`+at(first)+`}`, 239)
	refused(`{"find":"c"`+at(uint64(time.Now().Unix()+3600)<<32)+`}`, 72)
	refused(`{"count":"c"`+at(then)+`}`, 72)
	refused(`{"insert":"c","documents":[{}]`+at(0)+`}`, 72)
	refused(`{"find":"c","readConcern":{"level":"local","atClusterTime":{"$timestamp":{"t":1,"i":1}}}}`, 72)
	s.must("a", "d", `{"create":"capped","capped":true,"size":4096}`)
	s.must("a", "d", `{"create":"series","timeseries":{"timeField":"t"}}`)
	refused(`{"find":"capped"`+at(0)+`}`, 246)
	refused(`{"find":"series"`+at(0)+`}`, 246)
	refused(`{"aggregate":"c","pipeline":[{"$lookup":{"from":"capped","localField":"_id","foreignField":"of","as":"x"}}],"cursor":{}`+at(0)+`}`, 246)
	s.must("a", "d", `{"createIndexes":"c","indexes":[{"key":{"b":1},"name":"b"}]}`)
	refused(`{"find":"c"`+at(then)+`}`, 246)
	s.must("a", "d", `{"drop":"other"}`)
	refused(`{"find":"other"`+at(then)+`}`, 246)
	// A time that was not read is there as long as nothing was written since.
	wrote := s.must("a", "d", `{"insert":"c","documents":[{"_id":6},{"_id":7}]}`).Lookup("operationTime").Timestamp()
	s.must("a", "admin", `{"appendOplogNote":1,"data":{"x":1}}`)
	docs, _ := stateBatch(s.must("a", "d", `{"find":"c"`+at(wrote)+`}`))
	s.must("a", "d", `{"delete":"c","deletes":[{"q":{"_id":6},"limit":1}]}`)
	if again, _ := stateBatch(s.must("a", "d", `{"find":"c"`+at(wrote)+`}`)); again != docs || !strings.Contains(docs, "_id: 6") {
		s.t.Errorf("was %s, is %s", docs, again)
	}
	refused(`{"find":"c"`+at(wrote-1)+`}`, 239) // between two documents of one write
	open := s.must("a", "d", `{"find":"c","batchSize":1`+at(wrote)+`}`).Lookup("cursor").Doc().Lookup("id").Int64()
	kept := s.members["a"].member.KeptStates()
	kept.SetHistory(time.Nanosecond)
	refused(fmt.Sprintf(`{"getMore":{"$numberLong":"%d"},"collection":"c"}`, open), 239)
	refused(`{"find":"c"`+at(wrote)+`}`, 239)
	kept.SetHistory(0)
	s.must("a", "d", `{"find":"c"`+at(0)+`}`)
	status := new(bson.Builder)
	kept.AppendStatus(status)
	if d := status.Finish(); d.Lookup("kept").Int64() != 0 || d.Lookup("expired").Int64() == 0 || d.Lookup("tooOld").Int64() == 0 {
		s.t.Error(d)
	}
}

// TestSnapshotReadsOnSecondary reads the same state on two members, and waits for one
// that a member has not reached.
func TestSnapshotReadsOnSecondary(t *testing.T) {
	s := newTestSet(t, "a", "b")
	s.run("a", "admin", `{"replSetInitiate":{"_id":"rs0","members":[{"_id":0,"host":"a:1"},{"_id":1,"host":"b:1","priority":0}]}}`)
	s.wait([]string{"b", "SECONDARY"})
	s.wait([]string{"a", "PRIMARY"})
	wrote := s.must("a", "d", `{"insert":"c","documents":[{"_id":1},{"_id":2}]}`).Lookup("operationTime").Timestamp()
	const secondary = `,"$readPreference":{"mode":"secondary"}`
	there, _ := stateBatch(s.must("b", "d", `{"find":"c"`+secondary+at(wrote)+`}`))
	here, _ := stateBatch(s.must("a", "d", `{"find":"c"`+at(wrote)+`}`))
	s.must("a", "d", `{"delete":"c","deletes":[{"q":{"_id":1},"limit":1}],"writeConcern":{"w":2}}`)
	status := func(name string) bson.Doc {
		return s.must(name, "admin", `{"serverStatus":1}`).Lookup("opcountersRepl").Doc()
	}
	if d := status("b"); d.Lookup("insert").Int64() < 2 || d.Lookup("delete").Int64() != 1 || d.Lookup("command").Int64() < 1 {
		t.Errorf("the secondary counts %s", d)
	}
	if d := status("a"); d.Lookup("insert").Int64() != 0 {
		t.Errorf("the primary counts %s", d)
	}
	again, _ := stateBatch(s.must("b", "d", `{"find":"c"`+secondary+at(wrote)+`}`))
	if here != `[ { _id: 1 }, { _id: 2 } ]` || there != here || again != here {
		t.Errorf("the primary has %s, the secondary %s and then %s", here, there, again)
	}
}
