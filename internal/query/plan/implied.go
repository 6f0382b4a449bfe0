package plan

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// implied returns the keys of documents for which a comparison in $expr may be true.
// $expr compares across types, does not descend into arrays, sorts missing values below
// everything but MinKey, and reads a number in a path as a field name; an index that
// differs in this cannot be used. The expression is always evaluated again.
func (t translator) implied(c *expr.Comparison) (access, bool) {
	v := c.Value
	if t.ix.Wild != nil || t.ix.MultikeyPart(t.part) || slices.ContainsFunc(strings.Split(c.Path, "."), bson.AllDigits) || !t.usable(v) {
		return access{}, false
	}
	switch v.Type {
	case bson.Missing, bson.TypeUndefined, bson.TypeArray, bson.TypeRegex:
		return access{}, false
	}
	plugin := t.ix.Parts[t.part].Plugin
	if c.Op == "$eq" {
		switch {
		case plugin == "":
			return access{Intervals{Point(v)}, false}, true
		case plugin == "hashed" && t.ix.Collator == nil:
			return access{Intervals{Point(bson.Int64(keystring.Hash(v, 0)))}, false}, true
		}
		return access{}, false
	}
	if plugin != "" {
		return access{}, false
	}
	switch c.Op {
	case "$lt", "$lte":
		// A missing value, whose key is null if it has one, is below v.
		if t.ix.Sparse || v.Type.Class() <= bson.TypeNull.Class() {
			return access{}, false
		}
		return access{Intervals{{bson.MinKey, v, true, c.Op == "$lte"}}, false}, true
	}
	if v.Type == bson.TypeMinKey {
		return access{}, false
	}
	return access{normalize(Intervals{{v, bson.MaxKey, c.Op == "$gte", true}}), false}, true
}
