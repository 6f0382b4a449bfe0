package docfile

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// columns are the columns of CSV, and the fields of a document that they make.
type columns struct {
	parse []parser
	names []string
	root  field
}

// field is a field of a document: one of a column, or a document with more of them.
type field struct {
	name   string
	column int // -1: there are fields below
	below  []*field
}

// parser makes a value of a text.
type parser func(text string) (bson.Value, error)

// newColumns makes columns of their names, which say their types if typed is set: name.type().
// Errors: names that cannot be those of fields, or stand in each other's way.
func newColumns(names []string, typed bool) (*columns, error) {
	c := &columns{root: field{column: -1}}
	for i, name := range names {
		parse := parser(parseAuto)
		if typed {
			var err error
			if name, parse, err = parseTyped(name); err != nil {
				return nil, err
			}
		}
		c.names, c.parse = append(c.names, name), append(c.parse, parse)
		if err := c.root.add(strings.Split(name, "."), i); err != nil {
			return nil, fmt.Errorf("the column %q: %w", name, err)
		}
	}
	if len(names) == 0 {
		return nil, errors.New("there are no columns")
	}
	return c, nil
}

// add adds a column by its path.
func (f *field) add(path []string, column int) error {
	if path[0] == "" || strings.HasPrefix(path[0], "$") || strings.Contains(path[0], "\x00") {
		return errors.New("no name of a field")
	}
	i := slices.IndexFunc(f.below, func(b *field) bool { return b.name == path[0] })
	if i < 0 {
		i = len(f.below)
		f.below = append(f.below, &field{name: path[0], column: -1})
		if len(path) == 1 {
			f.below[i].column = column
			return nil
		}
	} else if len(path) == 1 || f.below[i].column >= 0 {
		return errors.New("there is another one of its name, or of the beginning of its name")
	}
	return f.below[i].add(path[1:], column)
}

// document makes the document of a row. Missing values are no fields.
func (c *columns) document(values []bson.Value, more []string) bson.Doc {
	b := new(bson.Builder)
	c.root.appendTo(b, values)
	for i, text := range more { // as mongoimport calls them
		v, _ := parseAuto(text) // never fails
		b.Value("field"+strconv.Itoa(len(values)+i), v)
	}
	return b.Finish()
}

func (f *field) appendTo(b *bson.Builder, values []bson.Value) {
	for _, below := range f.below {
		switch {
		case below.column >= 0:
			if v := values[below.column]; !v.IsMissing() {
				b.Value(below.name, v)
			}
		case below.has(values):
			b.OpenDoc(below.name)
			below.appendTo(b, values)
			b.Close()
		}
	}
}

// has reports whether there is a value below.
func (f *field) has(values []bson.Value) bool {
	if f.column >= 0 {
		return !values[f.column].IsMissing()
	}
	return slices.ContainsFunc(f.below, func(b *field) bool { return b.has(values) })
}

// parseAuto makes an int or long of a whole number, a double of another number, and a string of all
// else, as mongoimport does.
func parseAuto(text string) (bson.Value, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return bson.Int(i), nil
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return bson.Double(f), nil
	}
	return bson.String(text), nil
}

var typedName = regexp.MustCompile(`(?s)^(.*)\.(\w+)\((.*)\)$`)

// parseTyped is the name of a column and what makes its values, as mongoimport's
// --columnsHaveTypes has it.
func parseTyped(text string) (name string, parse parser, err error) {
	match := typedName.FindStringSubmatch(text)
	if match == nil {
		return "", nil, fmt.Errorf("the column %q does not say its type: name.int32()", text)
	}
	name, kind := match[1], match[2]
	arg := strings.NewReplacer(`\\`, `\`, `\(`, "(", `\)`, ")", `\`, "").Replace(match[3])
	if parse = plainParsers[kind]; parse != nil && arg == "" {
		return name, parse, nil
	}
	switch {
	case kind == "date" || kind == "date_go":
		return name, func(text string) (bson.Value, error) {
			t, err := time.Parse(arg, text)
			return bson.Date(t.UnixMilli()), err
		}, nil
	case kind == "binary" && binaryDecoders[arg] != nil:
		return name, func(text string) (bson.Value, error) {
			b, err := binaryDecoders[arg](text)
			return bson.Binary(0, b), err
		}, nil
	}
	return "", nil, fmt.Errorf("the column %q: no such type: auto, binary(base64, base32 or hex), boolean, date(Go's layout), date_go(…), decimal, double, int32, int64, string", text)
}

var binaryDecoders = map[string]func(string) ([]byte, error){
	"base64": base64.StdEncoding.DecodeString, "base32": base32.StdEncoding.DecodeString, "hex": hex.DecodeString,
}

var plainParsers = map[string]parser{
	"auto":   parseAuto,
	"string": func(text string) (bson.Value, error) { return bson.String(text), nil },
	"boolean": func(text string) (bson.Value, error) {
		switch strings.ToLower(text) {
		case "true", "1":
			return bson.True, nil
		case "false", "0":
			return bson.False, nil
		}
		return bson.Value{}, errors.New("no boolean")
	},
	"int32": func(text string) (bson.Value, error) {
		i, err := strconv.ParseInt(text, 10, 32)
		return bson.Int32(int32(i)), err
	},
	"int64": func(text string) (bson.Value, error) {
		i, err := strconv.ParseInt(text, 10, 64)
		return bson.Int64(i), err
	},
	"double": func(text string) (bson.Value, error) {
		f, err := strconv.ParseFloat(text, 64)
		return bson.Double(f), err
	},
	"decimal": func(text string) (bson.Value, error) {
		d, ok := bson.ParseDecimal(text)
		if !ok {
			return bson.Value{}, errors.New("no decimal")
		}
		return bson.Decimal(d), nil
	},
}
