package repl

import (
	"net"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Horizon is another address of a member, host:port, for clients that come from elsewhere. All
// members have horizons of the same names; which one a client is shown follows from the host
// that it asked for in TLS (SNI). (MongoDB: members[n].horizons.)
type Horizon struct{ Name, Host string }

// maxHorizons bounds those of a member.
const maxHorizons = 50

// parseHorizons reads {name: "host:port", …}.
func (m *MemberConfig) parseHorizons(v bson.Value) error {
	if err := wantType("horizons", v, bson.TypeDocument); err != nil {
		return err
	}
	for name, h := range v.Doc().All() {
		host, err := text("horizons."+name, h)
		if err != nil {
			return err
		}
		m.Horizons = append(m.Horizons, Horizon{name, host})
	}
	if len(m.Horizons) == 0 {
		return invalidConfig("horizons field can't be empty, if present")
	}
	return nil
}

// validateHorizons checks that each name leads to one address of each member, and each address
// and SNI name to one member.
func (c *Config) validateHorizons() error {
	hosts := map[string]bool{}
	for _, m := range c.Members {
		hosts[m.Host] = true
	}
	for _, m := range c.Members {
		if len(m.Horizons) > maxHorizons {
			return invalidConfig("Member %s has %d horizons, but no more than %d are allowed", m.Host, len(m.Horizons), maxHorizons)
		}
		if len(m.Horizons) != len(c.Members[0].Horizons) {
			return invalidConfig("Saw a replica set with inconsistent horizons: member %s has %d of them, and %s %d", m.Host, len(m.Horizons), c.Members[0].Host, len(c.Members[0].Horizons))
		}
		names := map[string]bool{}
		if host, _, err := net.SplitHostPort(m.Host); err == nil {
			names["host "+host] = true // else who asks for it in TLS is shown the horizon
		}
		for _, h := range m.Horizons {
			host, port, err := net.SplitHostPort(h.Host)
			switch {
			case h.Name == "":
				return invalidConfig("Horizons cannot have empty names")
			case h.Name == "__default":
				return invalidConfig("Horizon name \"__default\" is reserved for internal mongodb usage")
			case err != nil || host == "" || port == "":
				return invalidConfig("%q of horizon %s is not host:port", h.Host, h.Name)
			case c.Members[0].at(h.Name) == "":
				return invalidConfig("Saw a replica set with inconsistent horizons: member %s has no %s", c.Members[0].Host, h.Name)
			case hosts[h.Host]:
				return invalidConfig("Found two member configurations with same host or horizon: %s", h.Host)
			case names["name "+h.Name]:
				return invalidConfig("Member %s has horizon %s twice", m.Host, h.Name)
			case names["host "+host]:
				return invalidConfig("Duplicate horizon member found %q of member %s", host, m.Host)
			}
			hosts[h.Host], names["name "+h.Name], names["host "+host] = true, true, true
		}
	}
	return nil
}

// at is the member's address in a horizon, "" if it has none.
func (m *MemberConfig) at(horizon string) string {
	for _, h := range m.Horizons {
		if h.Name == horizon {
			return h.Host
		}
	}
	return ""
}

// HorizonOf is the horizon in which this member is known by a host name, "" for none.
func (m *MemberConfig) HorizonOf(name string) string {
	if name == "" {
		return ""
	}
	for _, h := range m.Horizons {
		if host, _, err := net.SplitHostPort(h.Host); err == nil && host == name {
			return h.Name
		}
	}
	return ""
}

// HostIn is the member's address in a horizon; "" is the one of Host.
func (m *MemberConfig) HostIn(horizon string) string {
	if host := m.at(horizon); host != "" {
		return host
	}
	return m.Host
}
