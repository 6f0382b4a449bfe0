package javascript

import (
	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// document is a BSON document as an object. A field is decoded when it is first read;
// read and changed fields are kept in touched. It is a
// goja.DynamicObject.
type document struct {
	scope      *scope
	doc        bson.Doc
	generation uint64
	lasting    bool // doc is the scope's own
	touched    []touched
	at         map[string]int // index of touched, if that is long
}

// touched is a field that was read, set or deleted.
type touched struct {
	name     string
	original bson.Value // Missing if the document has none
	value    goja.Value
	set      bool
	gone     bool
}

// manyTouched is the number of touched fields from which on a map is used.
const manyTouched = 8

// document makes an object of a document that does not change during the call.
func (c *scope) document(d bson.Doc) *goja.Object { return c.newDocument(d, false) }

func (c *scope) newDocument(d bson.Doc, lasting bool) *goja.Object {
	o := c.vm.NewDynamicObject(&document{scope: c, doc: d, generation: c.generation, lasting: lasting})
	if name, v := d.First(); name == "$ref" && v.Type == bson.TypeString && d.Has("$id") {
		c.setPrototype(o, c.types.dbRef)
	}
	return o
}

// check throws if the document was valid only for an earlier call.
func (d *document) check() {
	if !d.lasting && d.generation != d.scope.generation {
		d.scope.throw(mongoerr.New(mongoerr.BadValue, "Attempt to access an invalidated BSON Object in JS scope"))
	}
}

// find returns the place of a name in touched, or −1.
func (d *document) find(name string) int {
	if d.at != nil {
		if i, ok := d.at[name]; ok {
			return i
		}
		return -1
	}
	for i := range d.touched {
		if d.touched[i].name == name {
			return i
		}
	}
	return -1
}

func (d *document) touch(t touched) {
	d.touched = append(d.touched, t)
	if d.at != nil {
		d.at[t.name] = len(d.touched) - 1
		return
	}
	if len(d.touched) > manyTouched {
		d.at = make(map[string]int, 2*len(d.touched))
		for i := range d.touched {
			d.at[d.touched[i].name] = i
		}
	}
}

// Get returns a field, nil if there is none.
func (d *document) Get(name string) goja.Value {
	d.check()
	if i := d.find(name); i >= 0 {
		if d.touched[i].gone {
			return nil
		}
		return d.touched[i].value
	}
	v := d.doc.Lookup(name)
	if v.IsMissing() {
		return nil
	}
	value := d.scope.readIn(v, d.lasting)
	d.touch(touched{name: name, original: v, value: value})
	return value
}

// Set changes or adds a field.
func (d *document) Set(name string, value goja.Value) bool {
	d.check()
	if i := d.find(name); i >= 0 {
		t := &d.touched[i]
		t.value, t.set, t.gone = value, true, false
		return true
	}
	d.touch(touched{name: name, original: d.doc.Lookup(name), value: value, set: true})
	return true
}

// Has reports whether there is such a field.
func (d *document) Has(name string) bool {
	d.check()
	if i := d.find(name); i >= 0 {
		return !d.touched[i].gone
	}
	return d.doc.Has(name)
}

// Delete takes a field away.
func (d *document) Delete(name string) bool {
	d.check()
	if i := d.find(name); i >= 0 {
		d.touched[i].gone = true
	} else if v := d.doc.Lookup(name); !v.IsMissing() {
		d.touch(touched{name: name, original: v, gone: true})
	}
	return true
}

// Keys returns the names of the fields in the document's order, added ones last.
func (d *document) Keys() []string {
	d.check()
	n := d.doc.Len()
	names := make([]string, 0, n+len(d.touched))
	seen := make(map[string]bool, n)
	for it := d.doc.Iter(); it.Next(); {
		if seen[it.Key] {
			continue
		}
		seen[it.Key] = true
		if i := d.find(it.Key); i < 0 || !d.touched[i].gone {
			names = append(names, it.Key)
		}
	}
	for i := range d.touched {
		if t := &d.touched[i]; !t.gone && !seen[t.name] {
			names = append(names, t.name)
		}
	}
	return names
}

// changed reports whether the fields may differ from those of doc: one was set or
// deleted, or an object was handed out that can be changed.
func (d *document) changed() bool {
	for i := range d.touched {
		t := &d.touched[i]
		if t.set || t.gone || t.original.Type == bson.TypeDocument || t.original.Type == bson.TypeArray || t.original.Type == bson.TypeDate {
			return true
		}
	}
	return false
}
