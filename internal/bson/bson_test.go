package bson

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestTexts runs the scripts of testdata: documents in Extended JSON against
// their other forms.
func TestTexts(t *testing.T) {
	datadriven.Walk(t, "testdata/text", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for _, line := range strings.Split(strings.TrimSpace(d.Input), "\n") {
				out.WriteString(textCommand(d.Cmd, line) + "\n")
			}
			return out.String()
		})
	})
}

func textCommand(cmd, line string) string {
	switch cmd {
	case "decimal": // text → decimal → text
		dec, ok := ParseDecimal(line)
		return fmt.Sprintf("%s %v", dec, ok)
	case "validate": // hexadecimal bytes
		b, err := hex.DecodeString(strings.ReplaceAll(line, " ", ""))
		if err != nil {
			return err.Error()
		}
		if err := Validate(b, MaxDepth); err != nil {
			return err.Error()
		}
		return "ok"
	}
	v, err := ParseJSONValue(line)
	if err != nil {
		return "error: " + err.Error()
	}
	switch cmd {
	case "text":
		return v.String()
	case "canonical":
		return string(v.AppendJSON(nil, CanonicalJSON))
	case "relaxed":
		return string(v.AppendJSON(nil, RelaxedJSON))
	case "bytes":
		return v.Type.String() + " " + hex.EncodeToString(v.Data)
	}
	return "unknown command " + cmd
}
