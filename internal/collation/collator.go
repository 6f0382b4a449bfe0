package collation

import (
	"bytes"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/collate"
	"golang.org/x/text/language"
	"golang.org/x/text/unicode/norm"
)

// Options are the options of a collation, as the server names them.
type Options struct {
	Locale          string
	Strength        int    // 1 to 5: primary, secondary, tertiary, quaternary, identical
	CaseLevel       bool   // case decides after strengths 1 and 2
	CaseFirst       string // "off", "upper", "lower"
	NumericOrdering bool   // digits compare as numbers
	Shifted         bool   // alternate: "shifted": spaces and punctuation count from strength 4 on
	Space           bool   // maxVariable: "space": of those only spaces
	Backwards       bool   // accents decide from the end
}

// Collator orders strings by one collation. Safe for concurrent use.
type Collator struct {
	opts     Options
	bytewise bool      // en_US_POSIX: by code point
	base     sync.Pool // *engine up to strength 2, where case decides in between
	full     sync.Pool // *engine of the whole strength
}

// engine is what one goroutine needs to make keys.
type engine struct {
	c   *collate.Collator
	buf collate.Buffer
}

// New makes a Collator. The locale must be one that Valid accepts, and not the
// simple one.
func New(o Options) *Collator {
	c := &Collator{opts: o, bytewise: o.Locale == "en_US_POSIX"}
	c.full.New = c.engine(o.Strength)
	c.base.New = c.engine(min(o.Strength, 2))
	return c
}

func (c *Collator) engine(strength int) func() any {
	tag := c.tag(strength)
	return func() any { return &engine{c: collate.New(tag, collate.OptionsFromTag(tag))} }
}

// tag spells the options as a BCP 47 language tag.
func (c *Collator) tag(strength int) language.Tag {
	base, keyword, _ := strings.Cut(c.opts.Locale, "@")
	t := strings.ReplaceAll(base, "_", "-") + "-u"
	if _, order, ok := strings.Cut(keyword, "="); ok {
		if short, ok := shortOrders[order]; ok {
			order = short
		}
		t += "-co-" + order
	}
	if c.opts.Backwards {
		t += "-kb-true"
	}
	if c.opts.NumericOrdering {
		t += "-kn-true"
	}
	return language.Make(t + "-ks-" + levels[strength])
}

var levels = [...]string{1: "level1", 2: "level2", 3: "level3", 4: "level4", 5: "identic"}

// shortOrders are the names in language tags of orders whose own are too long.
var shortOrders = map[string]string{
	"phonebook": "phonebk", "traditional": "trad", "dictionary": "dict", "gb2312han": "gb2312",
}

// Compare orders two strings.
func (c *Collator) Compare(a, b string) int {
	if a == b {
		return 0
	}
	var buf [2][256]byte
	return bytes.Compare(c.AppendKey(buf[0][:0], a), c.AppendKey(buf[1][:0], b))
}

// AppendKey appends bytes whose order is the order of Compare.
func (c *Collator) AppendKey(dst []byte, s string) []byte {
	if c.bytewise {
		return append(dst, s...)
	}
	whole := s
	if c.opts.Shifted {
		s = strings.Map(c.dropVariable, s)
	}
	if c.opts.NumericOrdering {
		s = splitNumbers(s)
	}
	if c.opts.CaseLevel || c.opts.CaseFirst == "upper" || c.opts.CaseFirst == "lower" {
		dst = appendKey(dst, &c.base, s)
		dst = c.appendCase(append(dst, 0, 0), s)
		if c.opts.Strength < 3 {
			return dst
		}
		dst = append(dst, 0, 0)
	}
	dst = appendKey(dst, &c.full, s)
	if c.opts.Strength >= 4 {
		dst = c.appendQuaternary(append(dst, 0, 0), whole)
	}
	if c.opts.Strength == 5 {
		dst = append(append(dst, 0, 0), norm.NFD.String(whole)...)
	}
	return dst
}

func appendKey(dst []byte, engines *sync.Pool, s string) []byte {
	e := engines.Get().(*engine)
	e.buf.Reset()
	dst = append(dst, e.c.KeyFromString(&e.buf, s)...)
	engines.Put(e)
	return dst
}

// appendCase appends one byte for each letter: lower case before upper case,
// unless upper case comes first.
func (c *Collator) appendCase(dst []byte, s string) []byte {
	lower, upper := byte(1), byte(2)
	if c.opts.CaseFirst == "upper" {
		lower, upper = upper, lower
	}
	for _, r := range norm.NFD.String(s) {
		switch {
		case unicode.Is(unicode.Mn, r):
		case unicode.IsUpper(r):
			dst = append(dst, upper)
		default:
			dst = append(dst, lower)
		}
	}
	return dst
}
