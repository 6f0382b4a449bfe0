package match

import (
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"

	"github.com/mayflydb/mayfly/internal/bson"
)

// bound is minimum or maximum.
type bound struct {
	name      string
	spec      bson.Doc
	limit     bson.Value
	exclusive bool
}

// stringLength is minLength or maxLength, in code points.
type stringLength struct {
	name string
	spec bson.Doc
	n    int64
}

// patterned is pattern.
type patterned struct {
	spec  bson.Doc
	regex *Regex
}

// multiple is multipleOf.
type multiple struct {
	spec    bson.Doc
	divisor bson.Decimal128
}

func (p *parser) scalarRules(s *schema, k keywords) error {
	for _, name := range []string{"maximum", "minimum"} {
		if err := s.addBound(name, "exclusiveM"+name[1:], k); err != nil {
			return err
		}
	}
	for _, name := range []string{"maxLength", "minLength"} {
		n, ok, err := k.length(name)
		if err != nil {
			return err
		}
		if ok {
			s.add(&stringLength{name, k.spec(name), n})
		}
	}
	if v, ok := k["pattern"]; ok {
		if v.Type != bson.TypeString {
			return wrongType("$jsonSchema keyword 'pattern' must be a string")
		}
		regex, err := NewRegex("", v.Str(), "")
		if err != nil {
			return err
		}
		s.add(&patterned{k.spec("pattern"), regex})
	}
	if v, ok := k["multipleOf"]; ok {
		if !v.IsNumber() {
			return wrongType("$jsonSchema keyword 'multipleOf' must be a number")
		}
		d := bson.ToDecimal(v)
		if d.Negative() || d.IsZero() || d.IsNaN() {
			return unparsable("$jsonSchema keyword 'multipleOf' must have a positive value")
		}
		s.add(&multiple{k.spec("multipleOf"), d})
	}
	return nil
}

// spec is {name: …} as written, with further keywords that belong to it.
func (k keywords) spec(names ...string) bson.Doc {
	var b bson.Builder
	for _, name := range names {
		b.Value(name, k[name])
	}
	return b.Finish()
}

func (s *schema) addBound(name, exclusiveName string, k keywords) error {
	v, ok := k[name]
	exclusive, hasExclusive, err := k.boolean(exclusiveName)
	switch {
	case ok && !v.IsNumber():
		return wrongType("$jsonSchema keyword '%s' must be a number", name)
	case err != nil:
		return err
	case !ok && hasExclusive:
		return unparsable("$jsonSchema keyword '%s' must be a present if %s is present", name, exclusiveName)
	case ok:
		s.add(&bound{name, k.spec(name, exclusiveName), v, exclusive})
	}
	return nil
}

func (r *bound) keyword() string        { return r.name }
func (r *stringLength) keyword() string { return r.name }
func (r *patterned) keyword() string    { return "pattern" }
func (r *multiple) keyword() string     { return "multipleOf" }

func (r *bound) applies(t bson.Type) bool        { return t.IsNumber() }
func (r *stringLength) applies(t bson.Type) bool { return t == bson.TypeString }
func (r *patterned) applies(t bson.Type) bool    { return t == bson.TypeString }
func (r *multiple) applies(t bson.Type) bool     { return t.IsNumber() }

func (r *bound) accepts(v bson.Value, _ *Env) (bool, error) {
	op := map[bool]Op{true: Lte, false: Gte}[r.name == "maximum"]
	if r.exclusive {
		op = map[Op]Op{Lte: Lt, Gte: Gt}[op]
	}
	return (&Compare{Op: op, Value: r.limit}).elem(v, nil)
}

func (r *stringLength) accepts(v bson.Value, _ *Env) (bool, error) {
	n := int64(utf8.RuneCountInString(v.Str()))
	if r.name == "maxLength" {
		return n <= r.n, nil
	}
	return n >= r.n, nil
}

func (r *patterned) accepts(v bson.Value, _ *Env) (bool, error) { return r.regex.elem(v, nil) }

// exact is precise enough for the remainder of any two decimals.
var exact = apd.Context{Precision: 12500, MaxExponent: apd.MaxExponent, MinExponent: apd.MinExponent}

func (r *multiple) accepts(v bson.Value, _ *Env) (bool, error) {
	d := bson.ToDecimal(v)
	if d.IsNaN() || d.IsInf() != 0 {
		return false, nil
	}
	var rest apd.Decimal
	_, err := exact.Rem(&rest, d.APD(), r.divisor.APD())
	return err == nil && rest.IsZero(), nil
}

func (r *bound) explain(b *bson.Builder, v bson.Value) error {
	b.Doc("specifiedAs", r.spec).String("reason", "comparison failed").Value("consideredValue", v)
	return nil
}

func (r *stringLength) explain(b *bson.Builder, v bson.Value) error {
	b.Doc("specifiedAs", r.spec).String("reason", "specified string length was not satisfied").Value("consideredValue", v)
	return nil
}

func (r *patterned) explain(b *bson.Builder, v bson.Value) error {
	b.Doc("specifiedAs", r.spec).String("reason", "regular expression did not match").Value("consideredValue", v)
	return nil
}

func (r *multiple) explain(b *bson.Builder, v bson.Value) error {
	b.Doc("specifiedAs", r.spec).String("reason", "considered value is not a multiple of the specified value")
	b.Value("consideredValue", v)
	return nil
}
