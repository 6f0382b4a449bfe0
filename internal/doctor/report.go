package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Write prints the report for people.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s\n", r.What, count(float64(len(r.Servers)), "server", "servers"))
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "\n%s  %s  (%s)\n  %s\n  What to do: %s\n", strings.ToUpper(string(f.Severity)), f.Where, f.Check, f.Text, f.Do)
		for _, c := range f.Run {
			fmt.Fprintf(&b, "    > %s\n", c)
		}
	}
	if len(r.Findings) == 0 {
		b.WriteString("\nNothing is wrong.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Doc is the report for programs: {at, what, servers, findings: [{check, severity, where, text,
// do, run}]}.
func (r *Report) Doc() bson.Doc {
	b := new(bson.Builder).Date("at", r.At.UnixMilli()).String("what", r.What).Strings("servers", r.Servers...).OpenArray("findings")
	for i, f := range r.Findings {
		b.OpenDoc(bson.Index(i)).String("check", f.Check).String("severity", string(f.Severity)).String("where", f.Where).
			String("text", f.Text).String("do", f.Do).Strings("run", f.Run...).Close()
	}
	return b.Close().Finish()
}
