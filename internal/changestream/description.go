package changestream

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/oplog"
)

// description collects an updateDescription from the delta of the oplog: {updatedFields,
// removedFields, truncatedArrays, disambiguatedPaths}. (Manual: "update Event".)
type description struct {
	updated, disambiguated bson.Builder
	removed                []string
	truncated              []truncation
	path                   []step
	expanded               bool
}

type truncation struct {
	field string
	size  int32
}

// step is a field name, or an index of an array.
type step struct {
	name  string
	index bool
}

// updateDescription writes how a document has changed.
func (m *Maker) updateDescription(b *bson.Builder, at At) {
	var d description
	d.expanded = m.Options.Expanded
	d.updated.Reset(nil)
	d.disambiguated.Reset(nil)
	diff, _ := oplog.Diff(at.Old, at.Doc)
	d.document(diff)
	b.OpenDoc("updateDescription").Doc("updatedFields", d.updated.Finish()).Strings("removedFields", d.removed...)
	b.OpenArray("truncatedArrays")
	for i, t := range d.truncated {
		b.OpenDoc(bson.Index(i)).String("field", t.field).Int32("newSize", t.size).Close()
	}
	b.Close()
	if d.expanded {
		b.Doc("disambiguatedPaths", d.disambiguated.Finish())
	}
	b.Close()
}

// document reads the delta of a document, in the order in which mongod tells of it.
func (d *description) document(diff bson.Doc) {
	for _, section := range []string{"u", "i"} {
		if v := diff.Lookup(section); v.Type == bson.TypeDocument {
			for name, v := range v.Doc().All() {
				d.update(step{name: name}, v)
			}
		}
	}
	if v := diff.Lookup("d"); v.Type == bson.TypeDocument {
		for name := range v.Doc().All() {
			d.path = append(d.path, step{name: name})
			d.removed = append(d.removed, d.dotted())
			d.disambiguate()
			d.path = d.path[:len(d.path)-1]
		}
	}
	for name, v := range diff.All() {
		if name[0] == 's' {
			d.enter(step{name: name[1:]}, v.Doc())
		}
	}
}

// enter reads the delta of a field or an element.
func (d *description) enter(s step, diff bson.Doc) {
	d.path = append(d.path, s)
	if diff.Lookup("a").Type == bson.TypeBool {
		d.array(diff)
	} else {
		d.document(diff)
	}
	d.path = d.path[:len(d.path)-1]
}

// array reads the delta of an array.
func (d *description) array(diff bson.Doc) {
	if v := diff.Lookup("l"); v.Type == bson.TypeInt32 {
		d.truncated = append(d.truncated, truncation{d.dotted(), v.Int32()})
		d.disambiguate()
	}
	for name, v := range diff.All() {
		switch name[0] {
		case 'u':
			d.update(step{name[1:], true}, v)
		case 's':
			d.enter(step{name[1:], true}, v.Doc())
		}
	}
}

// update notes that a field or an element has a new value.
func (d *description) update(s step, v bson.Value) {
	d.path = append(d.path, s)
	d.updated.Value(d.dotted(), v)
	d.disambiguate()
	d.path = d.path[:len(d.path)-1]
}

func (d *description) dotted() string {
	if len(d.path) == 1 {
		return d.path[0].name
	}
	names := make([]string, len(d.path))
	for i, s := range d.path {
		names[i] = s.name
	}
	return strings.Join(names, ".")
}

// disambiguate notes the parts of the path, where they cannot be told from it: a field's
// name has a dot in it, or is a number behind another one.
func (d *description) disambiguate() {
	if !d.expanded {
		return
	}
	ambiguous := false
	for i, s := range d.path {
		ambiguous = ambiguous || !s.index && (i > 0 && isIndex(s.name) || strings.Contains(s.name, "."))
	}
	if !ambiguous {
		return
	}
	d.disambiguated.OpenArray(d.dotted())
	for i, s := range d.path {
		if s.index {
			n := int32(0)
			for _, c := range s.name {
				n = 10*n + int32(c-'0')
			}
			d.disambiguated.Int32(bson.Index(i), n)
		} else {
			d.disambiguated.String(bson.Index(i), s.name)
		}
	}
	d.disambiguated.Close()
}

// isIndex reports whether a name could be an index of an array.
func isIndex(name string) bool {
	return bson.AllDigits(name) && (name == "0" || name[0] != '0')
}
