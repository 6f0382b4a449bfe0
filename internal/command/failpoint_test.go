package command

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestFailPoint configures the fail point and shows what becomes of commands:
//
//	configure        the fields mode and data
//	run [app=name]   a command for each line of the input
func TestFailPoint(t *testing.T) {
	datadriven.Walk(t, "testdata/failpoint", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			d := NewDispatcher(quiet())
			d.FailCommand = &FailPoint{}
			sample(d)
			datadriven.RunTest(t, path, func(t *testing.T, td *datadriven.TestData) string {
				var out strings.Builder
				for _, line := range strings.Split(td.Input, "\n") {
					doc, err := bson.ParseJSON(line)
					if err != nil {
						t.Fatal(err)
					}
					if td.Cmd == "configure" {
						entered, err := d.FailCommand.Configure(doc.Lookup("mode"), document(doc.Lookup("data")))
						if err != nil {
							return err.Error() + "\n"
						}
						return "entered " + bson.Int64(entered).String() + " times\n"
					}
					client := &Client{}
					if td.HasArg("app") {
						var name string
						td.ScanArgs(t, "app", &name)
						client.SetMetadata(&Metadata{AppName: name})
					}
					began := time.Now()
					r := d.Dispatch(t.Context(), &Request{Client: client, DB: "db", Body: doc})
					out.WriteString(r.Body.String())
					if r.Close {
						out.WriteString(" closes the connection")
					}
					if took := time.Since(began); took > 0 {
						out.WriteString(" after " + took.String())
					}
					out.WriteString("\n")
				}
				return out.String()
			})
		})
	})
}

func document(v bson.Value) bson.Doc {
	if v.Type != bson.TypeDocument {
		return nil
	}
	return v.Doc()
}
