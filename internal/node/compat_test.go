package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/command"
)

// TestCompat holds the list of commands in docs/compat to the registry.
func TestCompat(t *testing.T) {
	datadriven.RunTest(t, "../../docs/compat/commands.txt", func(t *testing.T, _ *datadriven.TestData) string {
		n, _ := withData(t)
		var lines []string
		for _, c := range n.Dispatcher.Registry.All() {
			var notes []string
			for _, note := range []struct {
				text string
				is   bool
			}{
				{"on admin only", c.Flags&command.AdminOnly != 0}, {"in Stable API 1", c.Flags&command.APIv1 != 0},
			} {
				if note.is {
					notes = append(notes, note.text)
				}
			}
			if message, ok := notReplicated[c.Name]; ok {
				notes = append(notes, "on a standalone refused with code 76: "+message)
			}
			if notStandalone[c.Name] {
				notes = append(notes, "on a standalone refused with code 51300")
			}
			notes = append(notes, map[command.Place]string{
				command.OnPrimary: "on the primary", command.WhereAsked: "on a secondary where the read preference allows it",
				command.WhereReadable: "on primary and secondaries", command.Anywhere: "on any member", command.WithoutData: "on any member",
			}[c.Place])
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%-40s%s", c.Name, strings.Join(notes, ", "))))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n") + "\n"
	})
}
