package repl

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
)

// TestStored holds the bytes of what a group keeps (docs/format):
//
//	entry  kind=K term=N time=N  the data of an entry, whose payload is the input in hex
//	append term=N                entries with data, hex, one a line, and a hard state
//	truncate index=N             removes entries
//	state                        of a group, with a configuration; what it reads back as
//	keys                         all of the group's keys, and their values
func TestStored(t *testing.T) {
	e := openStore(t, storage.NewMemFS(), "db")
	log, err := OpenLog(e, 7)
	failed(t, err)
	datadriven.RunTest(t, "testdata/stored", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		var kind, term, time, index uint64
		d.MaybeScanArgs(t, "kind", &kind)
		d.MaybeScanArgs(t, "term", &term)
		d.MaybeScanArgs(t, "time", &time)
		d.MaybeScanArgs(t, "index", &index)
		switch d.Cmd {
		case "entry":
			x := entry{kind: entryKind(kind), term: term, time: Timestamp(time), payload: unhex(t, d.Input)}
			stored := x.encode()
			back, err := decodeEntry(stored)
			failed(t, err)
			if string(back.encode()) != string(stored) {
				t.Fatalf("it is read as %v", back)
			}
			fmt.Fprintf(&b, "%x\n", stored)
		case "append":
			var entries []*raftpb.Entry
			for line := range strings.Lines(d.Input) {
				entries = append(entries, &raftpb.Entry{
					Index: new(log.Last() + 1 + uint64(len(entries))), Term: &term, Type: raftpb.EntryNormal.Enum(), Data: unhex(t, line),
				})
			}
			failed(t, log.Append(&raftpb.HardState{Term: &term, Vote: new(uint64(10)), Commit: new(uint64(2))}, entries, true))
		case "truncate":
			failed(t, log.Truncate(index))
		case "state":
			c, err := ParseConfig(bson.MustParse(d.Input))
			failed(t, err)
			stored, err := groupState{c, c.confState()}.encode()
			failed(t, err)
			back, err := decodeGroupState(stored)
			failed(t, err)
			fmt.Fprintf(&b, "%x\nvoters %v learners %v, %s\n", stored, back.conf.GetVoters(), back.conf.GetLearners(), back.config.Doc())
		case "keys":
			failed(t, e.EachKey(func(id storage.Ident, key, value []byte) error {
				fmt.Fprintf(&b, "%d %x\n    %x\n", id, key, value)
				return nil
			}))
		}
		return b.String()
	})
	failed(t, e.Close())
}

func failed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.TrimSpace(s))
	failed(t, err)
	return b
}
