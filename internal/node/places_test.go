package node

import (
	"strings"
	"testing"
)

// TestPlaces holds that each command has one place in the table, and that the table
// names no other.
func TestPlaces(t *testing.T) {
	n, _ := withData(t)
	found := map[string]int{}
	for _, names := range placed {
		for name := range strings.FieldsSeq(names) {
			found[name]++
			if n.Dispatcher.Registry.Lookup(name) == nil {
				t.Errorf("%s is no command", name)
			}
		}
	}
	for _, c := range n.Dispatcher.Registry.All() {
		if found[c.Name] != 1 {
			t.Errorf("%s stands %d times in the table", c.Name, found[c.Name])
		}
	}
}
