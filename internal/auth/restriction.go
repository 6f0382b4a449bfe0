package auth

import (
	"net/netip"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// CheckRestrictions holds an array of authentication restrictions to its form:
// {clientSource: [...], serverAddress: [...]}, addresses or ranges of them.
// (Manual: Authentication Restrictions.) Errors: code 2.
func CheckRestrictions(rs []bson.Value) error {
	for _, r := range rs {
		for name, v := range r.Doc().All() {
			for a := range v.Doc().Values() {
				if _, ok := parseRange(text(a)); !ok {
					return mongoerr.New(mongoerr.BadValue, "Invalid IP address or range in '%s': %s", name, a)
				}
			}
		}
	}
	return nil
}

// allowed reports whether a client at one address may authenticate at another
// under restrictions: each list has one that both addresses satisfy.
func allowed(lists []bson.Doc, client, server string) bool {
	for _, list := range lists {
		met := false
		for r := range list.Values() {
			met = met || within(r.Doc().Lookup("clientSource"), client) && within(r.Doc().Lookup("serverAddress"), server)
		}
		if !met {
			return false
		}
	}
	return true
}

// within reports whether one of the ranges has the address; absent ranges have all.
func within(ranges bson.Value, address string) bool {
	if ranges.Type != bson.TypeArray {
		return true
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return false
	}
	for v := range ranges.Doc().Values() {
		if p, ok := parseRange(text(v)); ok && p.Contains(at.Addr().Unmap().WithZone("")) {
			return true
		}
	}
	return false
}

func parseRange(s string) (netip.Prefix, bool) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked(), true
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(a, a.BitLen()), true
}
