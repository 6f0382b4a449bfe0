package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// recorded are servers that answer with what was recorded.
type recorded map[string]map[string]string

// open fails for a server that was not recorded; one that is recorded as "elsewhere" cannot be asked.
func (r recorded) open(_ context.Context, address string) (Server, error) {
	replies, ok := r[address]
	if _, elsewhere := replies["elsewhere"]; elsewhere {
		return nil, ErrElsewhere
	}
	if !ok {
		return nil, errors.New("connection refused")
	}
	return replaying(replies), nil
}

type replaying map[string]string

func (replaying) Close() error { return nil }

// Run answers with the recorded reply to the command: a document, an array for a cursor over its
// elements, "error CODE MESSAGE", "lost" for none. To others there is an empty reply.
func (r replaying) Run(_ context.Context, db string, command bson.Doc) (bson.Doc, error) {
	name, v := command.First()
	key := db + " " + name
	if v.Type == bson.TypeString {
		key += " " + v.Str()
	}
	for _, s := range elements(command, "pipeline") {
		stage, _ := s.First()
		key += " " + stage
	}
	text, ok := r[key]
	var code int
	switch {
	case !ok:
		return bson.MustParse(`{ok: 1}`), nil
	case text == "lost":
		return nil, errors.New("no answer")
	case strings.HasPrefix(text, "["):
		text = `{cursor: {id: 0, ns: "x.y", firstBatch: ` + text + `}}`
	case strings.HasPrefix(text, "error "):
		if _, err := fmt.Sscanf(text, "error %d", &code); err != nil {
			return nil, err
		}
		return nil, mongoerr.New(mongoerr.Code(code), "%s", strings.TrimLeft(strings.TrimPrefix(text, "error "), "0123456789 "))
	}
	return bson.ParseJSON(text)
}

// Each finding, of replies that servers gave. `server ADDRESS` records one, a line for each reply:
// database, command, "=>", reply; `forget` removes all; `examine ADDRESS…` prints what is found.
func TestFindings(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		servers := recorded{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "forget":
				servers = recorded{}
			case "server":
				replies := replaying{}
				for line := range strings.Lines(d.Input) {
					key, reply, ok := strings.Cut(strings.TrimSpace(line), " => ")
					if !ok {
						d.Fatalf(t, "no => in %q", line)
					}
					replies[key] = reply
				}
				servers[d.CmdArgs[0].Key] = replies
			case "examine":
				now := time.Date(2026, 11, 29, 3, 0, 0, 0, time.UTC)
				o := Options{Open: servers.open, Now: func() time.Time { return now }, UnusedFor: 7 * 24 * time.Hour}
				for _, a := range d.CmdArgs {
					switch a.Key {
					case "backup":
						var age time.Duration
						for _, v := range a.Vals {
							var err error
							if age, err = time.ParseDuration(v); err != nil {
								d.Fatalf(t, "%v", err)
							}
							o.Backups = append(o.Backups, Backup{Of: "set rs0", At: now.Add(-age)})
						}
						o.BackupAge = 48 * time.Hour
					default:
						o.Addresses = append(o.Addresses, a.Key)
					}
				}
				r, err := Examine(t.Context(), o)
				if err != nil {
					return err.Error()
				}
				var b bytes.Buffer
				if err := r.Write(&b); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return b.String()
			default:
				d.Fatalf(t, "no command %s", d.Cmd)
			}
			return ""
		})
	})
}

// Every check finds something in the scripts: one that cannot is none.
func TestEveryCheckIsTold(t *testing.T) {
	told := map[string]bool{}
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			for _, c := range checks {
				if strings.Contains(d.Expected, "("+c.name+")") {
					told[c.name] = true
				}
			}
			return d.Expected
		})
	})
	for _, c := range checks {
		if !told[c.name] {
			t.Errorf("no script has a finding of the check %s", c.name)
		}
	}
}

// The manual has a line for each check.
func TestChecksAreInTheManual(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate/watch.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		if !strings.Contains(string(page), "\n| `"+c.name+"` |") {
			t.Errorf("docs/operate/watch.md says nothing of %s", c.name)
		}
	}
}

// The report for programs has what the one for people has.
func TestReportDoc(t *testing.T) {
	r := Report{At: time.UnixMilli(0), What: "the server a:1", Servers: []string{"a:1"}, Findings: []Finding{{"disk-full", Critical, "a:1", "It is full.", "Make room.", []string{"df"}}}}
	const want = `{"at":{"$date":"1970-01-01T00:00:00Z"},"what":"the server a:1","servers":["a:1"],"findings":[{"check":"disk-full","severity":"critical","where":"a:1","text":"It is full.","do":"Make room.","run":["df"]}]}`
	if got := string(r.Doc().AppendJSON(nil, bson.RelaxedJSON)); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
