package repl

import "testing"

// A horizon leads to one address of each member, and a host name to one horizon of a member.
func TestHorizons(t *testing.T) {
	with := func(horizons ...[]Horizon) *Config {
		c := threeMembers()
		c.Members = c.Members[:len(horizons)]
		for i, h := range horizons {
			c.Members[i].Horizons = h
		}
		return c
	}
	good := with([]Horizon{{"public", "a.example.com:1"}, {"site", "a.site:1"}}, []Horizon{{"site", "b.site:1"}, {"public", "b.example.com:1"}})
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	stored, err := ParseConfig(good.Doc())
	if err != nil || stored.Doc().String() != good.Doc().String() {
		t.Fatalf("%v, %v", stored, err)
	}
	a, b := &stored.Members[0], &stored.Members[1]
	if h := b.HorizonOf("b.site"); h != "site" || a.HostIn(h) != "a.site:1" || a.HorizonOf("b.site") != "" || a.HorizonOf("") != "" || a.HostIn("") != a.Host {
		t.Errorf("horizon %q", h)
	}
	for what, c := range map[string]*Config{
		"missing":           with([]Horizon{{"public", "a:2"}}, nil),
		"other names":       with([]Horizon{{"public", "a:2"}}, []Horizon{{"site", "b:2"}}),
		"the same address":  with([]Horizon{{"public", "a:2"}}, []Horizon{{"public", "a:2"}}),
		"a member's host":   with([]Horizon{{"public", "h1:1"}}, []Horizon{{"public", "b:2"}}),
		"one host twice":    with([]Horizon{{"public", "a:2"}, {"site", "a:3"}}, []Horizon{{"public", "b:2"}, {"site", "c:3"}}),
		"its own host":      with([]Horizon{{"public", "h0:9"}}),
		"a name twice":      with([]Horizon{{"public", "a:2"}, {"public", "x:3"}}, []Horizon{{"public", "b:2"}, {"public", "c:3"}}),
		"no port":           with([]Horizon{{"public", "a"}}),
		"no name":           with([]Horizon{{"", "a:2"}}),
		"the reserved name": with([]Horizon{{"__default", "a:2"}}),
	} {
		if c.Validate() == nil {
			t.Errorf("%s: taken", what)
		}
	}
}
