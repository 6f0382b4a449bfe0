package step_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestScripts shows the plan of each operation as golden scripts: what is asked and
// written, event by event. "begin" takes an operation of scenarios_test.go, "go on"
// answers whatever is asked until the next write or the end.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "twophase") { // twophase_test.go
			return
		}
		var sc *scenario
		var s step.State
		var asked []step.Send
		var out strings.Builder
		tell := func(a step.Action) {
			for _, r := range a.Send {
				again := ""
				if a.Again {
					again = " again"
				} else {
					asked = append(asked, r)
				}
				fmt.Fprintf(&out, "%s#%d to %q%s %s\n", s.Phase, r.Seq, r.Shard, again, r.Body)
			}
			if a.Write != 0 {
				fmt.Fprintf(&out, "write %s\n", a.Write)
				asked = nil
			}
		}
		event := func(e step.Event) {
			var a step.Action
			s, a = step.Step(s, e)
			tell(a)
			if s.Phase == step.Ended {
				fmt.Fprintf(&out, "ended, cause %v\n", s.Cause)
			}
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out.Reset()
			seq := int32(0)
			if len(d.CmdArgs) > 0 {
				n, _ := strconv.Atoi(d.CmdArgs[0].Key)
				seq = int32(n)
			}
			switch d.Cmd {
			case "begin":
				sc = scenarios()[strings.TrimSpace(d.Input)]
				s, asked = step.State{Operation: sc.op}, nil
				event(step.Event{Kind: step.Begin})
			case "answer":
				event(step.Event{Kind: step.Answered, Phase: s.Phase, Seq: seq, Reply: bson.MustParse(strings.TrimSpace(d.Input))})
			case "late": // the answer to a request of the first phase
				event(step.Event{Kind: step.Answered, Phase: step.Trying, Seq: seq, Reply: bson.MustParse(strings.TrimSpace(d.Input))})
			case "refuse":
				event(step.Event{Kind: step.Answered, Phase: s.Phase, Seq: seq, Err: mongoerr.New(mongoerr.OperationFailed, "no")})
			case "unknown":
				event(step.Event{Kind: step.Answered, Phase: s.Phase, Seq: seq, Err: mongoerr.New(mongoerr.CommandNotFound, "no such command")})
			case "lost":
				event(step.Event{Kind: step.Lost, Phase: s.Phase, Seq: seq})
			case "written":
				event(step.Event{Kind: step.Written, Told: sc.told})
			case "commit-refused":
				event(step.Event{Kind: step.Refused, Err: mongoerr.New(mongoerr.OperationFailed, "the chunks have changed")})
			case "cancel":
				event(step.Event{Kind: step.Cancel, Err: mongoerr.New(mongoerr.Interrupted, "cancelled")})
			case "go-on":
				for len(asked) > 0 {
					r := asked[0]
					asked = asked[1:]
					reply := bson.MustParse(`{behind: 0, done: true, ready: true, position: Timestamp(3, 4)}`)
					if r.Shard == step.Here {
						reply = sc.here[r.Name()]
					}
					event(step.Event{Kind: step.Answered, Phase: s.Phase, Seq: r.Seq, Reply: reply})
				}
			default:
				t.Fatalf("%s: no such command", d.Cmd)
			}
			return out.String()
		})
	})
}

// TestDocument holds that an operation is read as it was written.
func TestDocument(t *testing.T) {
	for name, sc := range scenarios() {
		op := sc.op
		op.Told = sc.told
		got, err := step.Parse(op.Doc())
		if err != nil || got.Doc().String() != op.Doc().String() {
			t.Errorf("%s: %v, %s", name, err, got.Doc())
		}
	}
	for _, bad := range []string{`{}`, `{_id: 1, kind: "move", ns: "a.b", phase: 1, args: {}}`, `{_id: NumberLong(1), kind: "none", ns: "a.b", phase: 1, args: {}}`,
		`{_id: NumberLong(1), kind: "move", ns: "a.b", phase: 4, args: {}}`} {
		if _, err := step.Parse(bson.MustParse(bad)); !mongoerr.Is(err, mongoerr.BadValue) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
