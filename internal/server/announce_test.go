package server

import (
	"slices"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/config"
)

// TestAccessControlWarning holds that the start warns that everybody may do
// everything where that is so, and only there.
func TestAccessControlWarning(t *testing.T) {
	const warning = `"id":22120`
	for _, c := range []struct {
		args  []string
		warns bool
	}{
		{nil, true},
		{[]string{"--auth"}, false},
		{[]string{"--noauth"}, true},
	} {
		o, err := config.Load(config.Input{Args: append([]string{"--port", "0", "--unixSocketPrefix", t.TempDir()}, c.args...)})
		if err != nil {
			t.Fatal(err)
		}
		s, log := newTestServer(t, o, newFake())
		s.announce()
		if got := strings.Contains(log.String(), warning); got != c.warns {
			t.Errorf("with %q the log warns: %t, want %t\n%s", c.args, got, c.warns, log)
		}
		lines, _, _ := s.log.Lines("startupWarnings")
		if got := slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, warning) }); got != c.warns {
			t.Errorf("with %q getLog warns: %t, want %t", c.args, got, c.warns)
		}
	}
}
