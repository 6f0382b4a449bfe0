package schema

import "github.com/mayflydb/mayfly/internal/bson"

// Collation is a collation other than the simple one, which is a nil Collation.
type Collation struct {
	Spec     bson.Doc      // normalised: every option, and the version
	Collator bson.Collator // orders strings
}

func (c *Collation) order() bson.Collator {
	if c == nil {
		return nil
	}
	return c.Collator
}

// spec is the normalised specification, nil for the simple collation.
func (c *Collation) spec() bson.Doc {
	if c == nil {
		return nil
	}
	return c.Spec
}

// collationText is how messages print a collation.
func collationText(spec bson.Doc) string {
	if spec == nil {
		return `{ locale: "simple" }`
	}
	return spec.String()
}

// ParseCollation parses a collation; nil is the simple one.
func ParseCollation(doc bson.Doc) (*Collation, error) {
	return nil, nil
}
