package timeseries

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestStored holds the bytes of columns (docs/format):
//
//	column  values, one a line, gap for none → the column, which reads back as them
//	read n=N  a column → its values. For what is compressed: its bytes are zstd's.
func TestStored(t *testing.T) {
	datadriven.RunTest(t, "testdata/stored", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		switch d.Cmd {
		case "column":
			var values []bson.Value
			for line := range strings.Lines(d.Input) {
				v := bson.Value{}
				if line = strings.TrimSpace(line); line != "gap" {
					v = bson.MustParseValue(line)
				}
				values = append(values, v)
			}
			fmt.Fprintf(&b, "%x\n", checkColumn(t, values))
		case "read":
			var n int
			d.ScanArgs(t, "n", &n)
			stored, err := hex.DecodeString(strings.Join(strings.Fields(d.Input), ""))
			if err != nil {
				t.Fatal(err)
			}
			c, err := OpenColumn(stored, n)
			if err != nil {
				t.Fatal(err)
			}
			values, err := c.Values(nil)
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range values {
				if i == 0 || i == n-1 || i%25 == 0 {
					fmt.Fprintf(&b, "%d: %s\n", i, v)
				}
			}
		}
		return b.String()
	})
}
