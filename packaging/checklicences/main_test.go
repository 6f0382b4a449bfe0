package main

import "testing"

func TestAllows(t *testing.T) {
	for _, c := range []struct {
		text         string
		ships, tests bool
	}{
		{"MIT", true, true}, {"MPL-2.0", false, true}, {"", false, true}, {"GPL-3.0", false, false}, {"LGPL-2.1", false, false}, {"SSPL-1.0", false, false},
		{"(BSD-3-Clause OR GPL-2.0)", true, true}, {"(MIT AND BSD-3-Clause)", true, true}, {"(MIT AND GPL-2.0)", false, false}, {"UNLICENSED", false, false}, {"Unlicense", true, true},
	} {
		if got := allows(c.text, true); got != c.ships {
			t.Errorf("%q shipped: %v", c.text, got)
		}
		if got := allows(c.text, false); got != c.tests {
			t.Errorf("%q in tests: %v", c.text, got)
		}
	}
}
