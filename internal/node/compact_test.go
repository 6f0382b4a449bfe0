package node

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// TestCompactCountsIndexes holds that bytesFreed has what the indexes gave back,
// too: here they are as large as the documents.
func TestCompactCountsIndexes(t *testing.T) {
	n, client := withData(t)
	run := func(format string, args ...any) bson.Doc {
		t.Helper()
		reply := dispatch(t, n, client, "d", fmt.Sprintf(format, args...), false).Body
		if reply.Lookup("ok").Double() != 1 {
			t.Fatalf("%s", reply)
		}
		return reply
	}
	run(`{"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]}`)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		var a strings.Builder
		for a.Len() < 8000 {
			fmt.Fprintf(&a, "%016x", random.Uint64())
		}
		run(`{"insert": "c", "documents": [{"_id": %d, "a": "%s"}]}`, i, a.String())
	}
	e, c := n.Catalog.Engine(), n.Catalog.Lookup(schema.Namespace{DB: "d", Coll: "c"})
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	usage := func() (documents, index uint64) {
		documents, err1 := e.DiskUsage(c.Ident)
		index, err2 := e.DiskUsage(c.Index("a").Ident)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		return documents, index
	}
	documents, index := usage()
	if index < documents/2 {
		t.Fatalf("the index has %d bytes beside %d", index, documents)
	}
	run(`{"delete": "c", "deletes": [{"q": {}, "limit": 0}]}`)
	freed := bson.ClampToInt64(run(`{"compact": "c"}`).Lookup("bytesFreed"))
	if freed < int64(documents+index)*9/10 {
		t.Errorf("bytesFreed is %d; the documents had %d, the index %d", freed, documents, index)
	}
}
