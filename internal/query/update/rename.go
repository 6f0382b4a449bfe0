package update

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// rename is one field of a $rename. In the tree it has two leaves: renameFrom removes
// the value, renameTo sets it.
type rename struct {
	from  string
	parts []string
	to    string
}

type renameFrom struct{ number int }

type renameTo struct {
	number int
	to     string
}

func (p *parsing) rename(from string, arg bson.Value) error {
	source, err := p.path(nil, from)
	if err != nil {
		return err
	}
	number := len(p.out.renames)
	if err := p.add(leaf{op: &renameFrom{number}, path: from, lenient: true}, source); err != nil {
		return err
	}
	if arg.Type != bson.TypeString {
		return mongoerr.New(mongoerr.BadValue, "The 'to' field for $rename must be a string: %s", elementText(from, arg))
	}
	to := arg.Str()
	if strings.IndexByte(to, 0) >= 0 {
		return mongoerr.New(mongoerr.Code(9867600), "The 'to' field for $rename cannot contain an embedded null byte")
	}
	target, err := p.path(nil, to)
	if err != nil {
		return err
	}
	text := elementText(from, arg)
	switch {
	case from == to:
		return mongoerr.New(mongoerr.BadValue, "The source and target field for $rename must differ: %s", text)
	case strings.HasPrefix(from, to+"."), strings.HasPrefix(to, from+"."):
		return mongoerr.New(mongoerr.BadValue, "The source and target field for $rename must not be on the same path: %s", text)
	case isDynamic(source):
		return mongoerr.New(mongoerr.BadValue, "The source field for $rename may not be dynamic: %s", from)
	case isDynamic(target):
		return mongoerr.New(mongoerr.BadValue, "The destination field for $rename may not be dynamic: %s", to)
	}
	p.out.renames = append(p.out.renames, rename{from, source, to})
	return p.add(leaf{op: &renameTo{number, to}, path: to, creates: true}, target)
}

// resolve finds the value that each rename moves.
func (c *Context) resolve(renames []rename) error {
	if len(renames) == 0 {
		return nil
	}
	c.renamed = make([]bson.Value, len(renames))
	for i, r := range renames {
		if err := c.tick(); err != nil {
			return err
		}
		v, err := c.source(r)
		if err != nil {
			return err
		}
		c.renamed[i] = v
	}
	return nil
}

// source finds the value that a rename moves, or Missing.
func (c *Context) source(r rename) (bson.Value, error) {
	v, name, array := bson.Document(c.doc), "", ""
	for i, part := range r.parts {
		var next bson.Value
		switch {
		case v.Type == bson.TypeDocument:
			next = v.Doc().Lookup(part)
		case v.Type == bson.TypeArray && bson.AllDigits(part):
			array = name
			next = v.Doc().Lookup(part)
		default:
			return bson.Value{}, mongoerr.New(mongoerr.PathNotViable,
				"cannot use the part (%s of %s) to traverse the element ({%s})", r.parts[i-1], r.from, elementText(name, v))
		}
		if next.IsMissing() {
			return next, nil
		}
		if array != "" && i == len(r.parts)-1 {
			return next, mongoerr.New(mongoerr.BadValue,
				"The source field cannot be an array element, '%s' in doc with %s has an array field called '%s'", r.from, c.idText(), array)
		}
		v, name = next, part
	}
	return v, nil
}

func (c *Context) idText() string {
	if v := c.doc.Lookup("_id"); !v.IsMissing() {
		return elementText("_id", v)
	}
	return "no id"
}

func (r *renameFrom) apply(c *Context, dst []byte, _ string, old bson.Value) ([]byte, bson.Type, error) {
	if c.renamed[r.number].IsMissing() {
		return append(dst, old.Data...), old.Type, nil
	}
	return dst, bson.Missing, nil
}

func (r *renameTo) apply(c *Context, dst []byte, _ string, old bson.Value) ([]byte, bson.Type, error) {
	v := c.renamed[r.number]
	if v.IsMissing() {
		v = old
	}
	return append(dst, v.Data...), v.Type, nil
}

// checkTarget rejects moving a value into an array; f is the innermost value
// around the target.
func (r *renameTo) checkTarget(c *Context, f *frame) error {
	if c.renamed[r.number].IsMissing() {
		return nil
	}
	for ; f != nil; f = f.up {
		if f.v.Type == bson.TypeArray {
			return mongoerr.New(mongoerr.BadValue,
				"The destination field cannot be an array element, '%s' in doc with %s has an array field called '%s'", r.to, c.idText(), f.name)
		}
	}
	return nil
}
