package schema

import (
	"fmt"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/collation"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

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

// collationText returns a collation as messages show it.
func collationText(spec bson.Doc) string {
	if spec == nil {
		return `{ locale: "simple" }`
	}
	return spec.String()
}

// collationVersion is the version of the tables, as in specifications.
const collationVersion = "57.1"

// collationParser reads a specification field by field.
type collationParser struct {
	doc  bson.Doc
	opts collation.Options
	// What the specification gives; the rest is the locale's default.
	alternate, maxVariable   string
	normalization, backwards bool
	given                    map[string]bool
}

// ParseCollation parses a collation; nil is the simple one. Errors: 40414
// without a locale, 40415 for unknown fields, 14 for types, 2 for values, 161
// for a version that is not ours.
func ParseCollation(doc bson.Doc) (*Collation, error) {
	p := collationParser{doc: doc, given: map[string]bool{}, alternate: "non-ignorable", maxVariable: "punct"}
	p.opts.Strength, p.opts.CaseFirst = 3, "off"
	for name, v := range doc.All() {
		set, ok := collationFields[name]
		if !ok {
			return nil, mongoerr.New(mongoerr.Code(40415), "BSON field 'collation.%s' is an unknown field.", name)
		}
		if v.IsNullish() && name != "backwards" {
			continue
		}
		if err := set(&p, v); err != nil {
			return nil, err
		}
		p.given[name] = true
	}
	if !p.given["locale"] {
		return nil, mongoerr.New(mongoerr.Code(40414), "BSON field 'collation.locale' is missing but a required field")
	}
	if p.opts.Locale == collation.Simple {
		return nil, nil
	}
	return p.finish()
}

// collationFields read the fields; the value is never null.
var collationFields = map[string]func(*collationParser, bson.Value) error{
	"locale":    func(p *collationParser, v bson.Value) error { return stringField("locale", v, &p.opts.Locale) },
	"caseLevel": func(p *collationParser, v bson.Value) error { return boolField("caseLevel", v, &p.opts.CaseLevel) },
	"caseFirst": func(p *collationParser, v bson.Value) error {
		return enumField("caseFirst", v, &p.opts.CaseFirst, "upper", "lower", "off")
	},
	"strength": (*collationParser).strength,
	"numericOrdering": func(p *collationParser, v bson.Value) error {
		return boolField("numericOrdering", v, &p.opts.NumericOrdering)
	},
	"alternate": func(p *collationParser, v bson.Value) error {
		return enumField("alternate", v, &p.alternate, "non-ignorable", "shifted")
	},
	"maxVariable": func(p *collationParser, v bson.Value) error {
		return enumField("maxVariable", v, &p.maxVariable, "punct", "space")
	},
	"normalization": func(p *collationParser, v bson.Value) error { return boolField("normalization", v, &p.normalization) },
	"backwards":     func(p *collationParser, v bson.Value) error { return boolField("backwards", v, &p.backwards) },
	"version":       (*collationParser).version,
}

func wrongType(name string, v bson.Value, want string) error {
	return mongoerr.New(mongoerr.TypeMismatch, "BSON field 'collation.%s' is the wrong type '%s', expected %s", name, v.Type, want)
}

func stringField(name string, v bson.Value, to *string) error {
	if v.Type != bson.TypeString {
		return wrongType(name, v, "type 'string'")
	}
	*to = strings.Clone(v.Str())
	return nil
}

func boolField(name string, v bson.Value, to *bool) error {
	if v.Type != bson.TypeBool {
		return wrongType(name, v, "type 'bool'")
	}
	*to = v.Bool()
	return nil
}

func enumField(name string, v bson.Value, to *string, values ...string) error {
	if err := stringField(name, v, to); err != nil {
		return err
	}
	for _, ok := range values {
		if *to == ok {
			return nil
		}
	}
	return invalidEnum(name, *to)
}

func invalidEnum(name, value string) error {
	return mongoerr.New(mongoerr.BadValue, "Enumeration value '%s' for field 'collation.%s' is not a valid value.", value, name)
}

func (p *collationParser) strength(v bson.Value) error {
	if !v.IsNumber() {
		return wrongType("strength", v, "types '[long, int, decimal, double]'")
	}
	n := bson.ClampToInt64(v)
	if n < 1 || n > 5 {
		return invalidEnum("strength", fmt.Sprint(n))
	}
	p.opts.Strength = int(n)
	return nil
}

func (p *collationParser) version(v bson.Value) error {
	var version string
	if err := stringField("version", v, &version); err != nil {
		return err
	}
	if version != collationVersion {
		return mongoerr.New(mongoerr.IncompatibleCollationVersion,
			"Requested collation version %s but the only available collator version was %s. Requested collation spec: %s",
			version, collationVersion, p.doc)
	}
	return nil
}

// finish checks the fields against each other and fills in the locale's own.
func (p *collationParser) finish() (*Collation, error) {
	if ok, suggestion := collation.Valid(p.opts.Locale); !ok {
		hint := ""
		if suggestion != "" {
			hint = ". Did you mean '" + suggestion + "'?"
		}
		return nil, mongoerr.New(mongoerr.BadValue, "Field 'locale' is invalid in: %s%s", p.doc, hint)
	}
	switch language, _, _ := strings.Cut(p.opts.Locale, "@"); {
	case language == "th" && !p.given["alternate"]:
		p.alternate = "shifted"
	case language == "fr_CA" && !p.given["backwards"]:
		p.backwards = true
	case (language == "da" || language == "mt") && !p.given["caseFirst"]:
		p.opts.CaseFirst = "upper"
	}
	if p.given["caseFirst"] && p.opts.CaseFirst != "off" && !p.opts.CaseLevel && p.opts.Strength < 3 {
		return nil, mongoerr.New(mongoerr.BadValue, "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2 in: %s", p.doc)
	}
	if p.backwards && p.opts.Strength == 1 {
		return nil, mongoerr.New(mongoerr.BadValue, "'backwards' is invalid with 'strength' of 1 in: %s", p.doc)
	}
	p.opts.Shifted, p.opts.Space, p.opts.Backwards = p.alternate == "shifted", p.maxVariable == "space", p.backwards
	var b bson.Builder
	b.String("locale", p.opts.Locale).Bool("caseLevel", p.opts.CaseLevel).String("caseFirst", p.opts.CaseFirst).
		Int32("strength", int32(p.opts.Strength)).Bool("numericOrdering", p.opts.NumericOrdering).
		String("alternate", p.alternate).String("maxVariable", p.maxVariable).
		Bool("normalization", p.normalization).Bool("backwards", p.backwards).String("version", collationVersion)
	return &Collation{Spec: b.Finish(), Collator: collation.New(p.opts)}, nil
}
