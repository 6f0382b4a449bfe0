package client

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestParseURI parses connection strings: testdata/uri.
func TestParseURI(t *testing.T) {
	datadriven.RunTest(t, "testdata/uri", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		for line := range strings.Lines(d.Input) {
			u, err := ParseURI(strings.TrimSpace(line), SecondaryPreferred)
			if err != nil {
				fmt.Fprintln(&b, err)
				continue
			}
			fmt.Fprintf(&b, "%q set %q read %s direct %t tls %t", u.Hosts, u.Set, u.Read, u.Direct, u.options.TLS != nil)
			if l := u.options.Login; l != nil {
				fmt.Fprintf(&b, " user %q password %q of %q by %q", l.User, l.Password, l.source(), l.Mechanism)
			}
			b.WriteByte('\n')
		}
		return b.String()
	})
}
