package node

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// TestServerStages runs testdata/stages: each line is a stage that reads the
// server's state, run on the namespace of the case, which does not exist.
func TestServerStages(t *testing.T) {
	datadriven.Walk(t, "testdata/stages", func(t *testing.T, path string) {
		n := withoutData()
		for i := range 2 {
			id := command.SessionID{ID: [16]byte{byte(i)}, UID: command.UserDigest("", "")}
			if i == 1 {
				id.UID = command.UserDigest("ann", "admin")
			}
			if err := n.Dispatcher.Sessions.Refresh(id); err != nil {
				t.Fatal(err)
			}
		}
		datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
			ns := schema.Namespace{DB: "config", Coll: c.Cmd}
			w := &world{n: n, op: &command.Op{Client: &command.Client{}, Dispatcher: n.Dispatcher}, ns: ns}
			var out strings.Builder
			for line := range strings.SplitSeq(c.Input, "\n") {
				stage, arg := bson.MustParse(line).First()
				it, err := w.Source(context.Background(), stage, arg)
				if err != nil {
					e := mongoerr.From(err)
					fmt.Fprintf(&out, "%d: %s\n", e.Code, e.Message)
					continue
				}
				for {
					d, err := it.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if d == nil {
						break
					}
					fmt.Fprint(&out, d, " ")
				}
				fmt.Fprintln(&out)
			}
			return regexp.MustCompile(`new Date\(\d+\)`).ReplaceAllString(out.String(), "new Date(...)")
		})
	})
}
