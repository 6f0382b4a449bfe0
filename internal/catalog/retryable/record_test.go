package retryable

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestRecord holds the bytes of records (docs/format). A record is "term time txn
// date", and a line for each statement: kind, number, and document where it has one.
// "parse" reads hex.
func TestRecord(t *testing.T) {
	datadriven.RunTest(t, "testdata/records", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "parse" {
			b, err := hex.DecodeString(strings.TrimSpace(d.Input))
			if err != nil {
				t.Fatal(err)
			}
			return shown(Parse(b))
		}
		lines := strings.Split(d.Input, "\n")
		var r Record
		if _, err := fmt.Sscan(lines[0], &r.Term, &r.Time, &r.Txn, &r.Date); err != nil {
			t.Fatal(err)
		}
		for _, line := range lines[1:] {
			words := strings.SplitN(line, " ", 3)
			var kind Kind
			for k := Inserted; k < kinds; k++ {
				if names[k] == words[0] {
					kind = k
				}
			}
			var statement int32
			if _, err := fmt.Sscan(words[1], &statement); err != nil {
				t.Fatal(err)
			}
			var doc bson.Doc
			if len(words) == 3 {
				doc = bson.MustParse(words[2])
			}
			r.Runs = AppendRun(r.Runs, kind, statement, doc)
		}
		body := r.AppendBody(nil)
		if !ValidBody(body) {
			t.Errorf("%x is no body", body)
		}
		value := AppendValue(nil, r.Term, r.Time, body)
		key := AppendKey(nil, Session{ID: [16]byte{1, 2}, UID: [32]byte{3, 4}}, 5)
		if s, number, err := ParseKey(key); err != nil || number != 5 || s.ID != [16]byte{1, 2} || s.UID != [32]byte{3, 4} {
			t.Errorf("the key is %v %d %v", s, number, err)
		}
		return fmt.Sprintf("%x\n%x\n%s", key, value, shown(Parse(value)))
	})
}

var names = map[Kind]string{Inserted: "inserted", Updated: "updated", Deleted: "deleted", Upserted: "upserted", Modified: "modified", Committed: "committed", Prepared: "prepared", Aborted: "aborted"}

func shown(r Record, err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d %d %d %d\n", r.Term, r.Time, r.Txn, r.Date)
	for _, run := range r.Runs {
		fmt.Fprintf(&b, "%s %d+%d %s\n", names[run.Kind], run.First, run.Count, run.Doc)
	}
	return b.String()
}

// FuzzParse reads anything: what is a record is encoded to the same again.
func FuzzParse(f *testing.F) {
	r := Record{Txn: 7, Date: 9, Runs: []Run{{Inserted, 0, 3, nil}, {Upserted, 3, 1, bson.MustParse(`{"_id": 1}`)}}}
	f.Add(AppendValue(nil, 1, 2, r.AppendBody(nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse(b)
		if err != nil {
			return
		}
		again, err := Parse(AppendValue(nil, r.Term, r.Time, r.AppendBody(nil)))
		if err != nil || shown(again, nil) != shown(r, nil) {
			t.Errorf("%x is read as %v, and that as %v %v", b, r, again, err)
		}
	})
}
