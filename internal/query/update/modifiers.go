package update

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// operator changes one value. Operators are immutable.
type operator interface {
	// apply appends to dst the payload of the field's new value and returns its
	// type: old's own if nothing changes, Missing to remove the field. old is Missing
	// if there is no such field, with which only operators that create fields are
	// called.
	apply(c *Context, dst []byte, field string, old bson.Value) (out []byte, t bson.Type, err error)
}

// modifier is an update operator.
type modifier struct {
	// parse reads the argument for one field.
	parse      func(field string, arg bson.Value, opts *Options) (operator, error)
	creates    bool // see leaf
	lenient    bool
	insertOnly bool
}

var modifierNames = map[string]modifier{
	"$set":         {parse: parseSet, creates: true},
	"$setOnInsert": {parse: parseSet, creates: true, insertOnly: true},
	"$unset":       {parse: parseUnset, lenient: true},
	"$inc":         {parse: parseInc, creates: true},
	"$mul":         {parse: parseMul, creates: true},
	"$min":         {parse: parseMin, creates: true},
	"$max":         {parse: parseMax, creates: true},
	"$bit":         {parse: parseBit, creates: true},
	"$currentDate": {parse: parseCurrentDate, creates: true},
	"$push":        {parse: parsePush, creates: true},
	"$addToSet":    {parse: parseAddToSet, creates: true},
	"$pop":         {parse: parsePop},
	"$pull":        {parse: parsePull},
	"$pullAll":     {parse: parsePullAll},
	"$rename":      {}, // concerns two fields: see rename.go
}

// modifiers is a parsed document of update operators.
type modifiers struct {
	root       node
	renames    []rename
	positional bool // some path has a positional $
	grows      int  // upper bound of the growth by new values, in bytes
}

// parsing holds the state of parsing one document of update operators.
type parsing struct {
	opts    *Options
	out     *modifiers
	filters arrayFilters
}

// parse reads a document of update operators into m.
func (m *modifiers) parse(u bson.Doc, opts *Options) error {
	filters, err := parseArrayFilters(opts)
	if err != nil {
		return err
	}
	m.grows = len(u)
	p := parsing{opts: opts, out: m, filters: filters}
	for it := u.Iter(); it.Next(); {
		operator, ok := modifierNames[it.Key]
		if !ok {
			return mongoerr.New(mongoerr.FailedToParse,
				"Unknown modifier: %s. Expected a valid update modifier or pipeline-style update specified as an array", it.Key)
		}
		if it.Value.Type != bson.TypeDocument {
			return mongoerr.New(mongoerr.FailedToParse,
				"Modifiers operate on fields but we found type %s instead. For example: {$mod: {<field>: ...}} not {%s}",
				it.Value.Type, elementText(it.Key, it.Value))
		}
		for f := it.Value.Doc().Iter(); f.Next(); {
			if it.Key == "$rename" {
				err = p.rename(f.Key, f.Value)
			} else {
				err = p.field(operator, f.Key, f.Value)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := p.filters.checkUsed(u); err != nil {
		return err
	}
	m.root.sort()
	return nil
}

// field parses one field of an operator's argument.
func (p *parsing) field(m modifier, path string, arg bson.Value) error {
	var usual [usualParts]string
	parts, err := p.path(usual[:0], path)
	if err != nil {
		return err
	}
	op, err := m.parse(path, arg, p.opts)
	if err != nil {
		return err
	}
	return p.add(leaf{op: op, path: path, creates: m.creates, lenient: m.lenient, insertOnly: m.insertOnly}, parts)
}

// usualParts is how many names most paths have at most.
const usualParts = 4

// path appends the names on a path.
func (p *parsing) path(parts []string, path string) ([]string, error) {
	parts, err := splitPath(parts, path)
	if err != nil {
		return nil, err
	}
	return parts, checkDynamic(path, parts, &p.filters)
}

// add puts a leaf into the tree.
func (p *parsing) add(l leaf, parts []string) error {
	l.onID = parts[0] == "_id"
	l.dollar = strings.HasPrefix(parts[0], "$")
	for _, name := range parts {
		p.out.positional = p.out.positional || name == "$"
	}
	return p.out.root.add(l, parts, &p.filters)
}
