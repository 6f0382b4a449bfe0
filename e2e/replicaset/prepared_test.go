package replicaset

import (
	"errors"
	"fmt"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	mbson "github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// raw sends a command of session 1's transaction to a member, over a connection of its own:
// drivers send no prepareTransaction. command is Extended JSON.
func (w *set) raw(i int, db string, number int64, command string) (mbson.Doc, error) {
	w.t.Helper()
	c, err := client.Connect(w.t.Context(), client.Options{Address: host(w.members[i])})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	id := [16]byte{1}
	b := new(mbson.Builder).Fields(mbson.MustParse(command)).OpenDoc("lsid").Binary("id", 4, id[:]).Close()
	return c.Run(w.t.Context(), db, b.Int64("txnNumber", number).Bool("autocommit", false).Finish())
}

// TestPreparedTransactionSurvives loses primaries in every way, between the prepare of a
// transaction and its decision, and after that: the documents stay locked until it is decided,
// it is decided once, and all members have the same.
func TestPreparedTransactionSurvives(t *testing.T) {
	w := start(t)
	docs := w.all.Database("app").Collection("docs")
	want := int32(0)
	if _, err := docs.InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}, {Key: "n", Value: want}}); err != nil {
		t.Fatal(err)
	}
	for n, loss := range losses {
		number := int64(n + 1)
		p := w.primary(-1)
		must := func(i int, db, command string) mbson.Doc {
			t.Helper()
			r, err := w.raw(i, db, number, command)
			if err != nil {
				t.Fatalf("%s: %s: %v", loss.name, command, err)
			}
			return r
		}
		must(p, "app", `{"update":"docs","updates":[{"q":{"_id":1},"u":{"$inc":{"n":1}}}],"startTransaction":true}`)
		must(p, "app", fmt.Sprintf(`{"insert":"docs","documents":[{"_id":%d}]}`, 100+n))
		at := must(p, "admin", `{"prepareTransaction":1,"coordinator":"s0"}`).Lookup("prepareTimestamp").Timestamp()
		loss.lose(w, p)
		w.healthy()
		p = w.primary(-1)
		locked := bson.D{{Key: "update", Value: "docs"}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: bson.D{{Key: "_id", Value: 1}}}, {Key: "u", Value: bson.D{{Key: "$set", Value: bson.D{{Key: "n", Value: -1}}}}}}}}, {Key: "maxTimeMS", Value: 100}}
		until(t, "the lock", func() error {
			err := w.clients[p].Database("app").RunCommand(t.Context(), locked).Err()
			if err == nil {
				t.Fatalf("%s: a document of a prepared transaction was changed", loss.name)
			}
			if code(err) != int32(mongoerr.MaxTimeMSExpired) {
				p = w.primary(-1)
				return err
			}
			return nil
		})
		decision := `{"abortTransaction":1,"coordinator":"s0"}`
		if n%2 == 0 {
			decision = fmt.Sprintf(`{"commitTransaction":1,"commitTimestamp":{"$timestamp":{"t":%d,"i":%d}}}`, at>>32, uint32(at))
			want++
		}
		decide := func() {
			t.Helper()
			until(t, "the decision", func() error {
				_, err := w.raw(w.primary(-1), "admin", number, decision)
				return err
			})
		}
		decide()
		p = w.primary(-1)
		loss.lose(w, p)
		w.healthy()
		decide()
		until(t, "the result", func() error {
			var doc struct{ N int32 }
			if err := docs.FindOne(t.Context(), bson.D{{Key: "_id", Value: 1}}).Decode(&doc); err != nil {
				return err
			}
			if doc.N != want {
				t.Fatalf("%s: n is %d, want %d", loss.name, doc.N, want)
			}
			n, err := docs.CountDocuments(t.Context(), bson.D{{Key: "_id", Value: bson.D{{Key: "$gte", Value: 100}}}})
			if err == nil && n != int64(want) {
				err = errors.New("the other document does not fit")
			}
			return err
		})
	}
	w.same()
}
