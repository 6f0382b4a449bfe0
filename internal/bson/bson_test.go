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
	switch cmd {
	case "arithmetic":
		return calculate(line)
	case "quantize":
		return quantize(line)
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

func calculate(line string) string {
	op, rest, _ := strings.Cut(line, " ")
	left, right, _ := strings.Cut(rest, " ")
	a, b := MustParseValue(left), MustParseValue(right)
	var v Value
	overflow := false
	switch op {
	case "+":
		v, overflow = Add(a, b)
	case "-":
		v, overflow = Subtract(a, b)
	case "*":
		v, overflow = Multiply(a, b)
	case "/":
		v = Divide(a, b)
	case "%":
		v = Mod(a, b)
	}
	if overflow {
		return fmt.Sprintf("%s %s, overflow", v.Type, v)
	}
	return fmt.Sprintf("%s %s", v.Type, v)
}

func quantize(line string) string {
	var exp int
	var text string
	fmt.Sscan(line, &exp, &text)
	d, _ := ParseDecimal(text)
	var out []string
	for mode := RoundHalfEven; mode <= RoundCeiling; mode++ {
		if r, ok := d.Quantize(exp, mode); ok {
			out = append(out, r.String())
		} else {
			out = append(out, "too long")
		}
	}
	return strings.Join(out, ", ")
}
