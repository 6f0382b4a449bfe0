package oplog

import (
	"bytes"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

// The delta of MongoDB's update entries, version 2. Of a document:
//
//	d  {field: false}  fields that are gone
//	u  {field: value}  fields that have another value, at their place
//	i  {field: value}  fields that are new, or have moved, at the end in this order
//	s… delta           of a field that is a document or an array before and after
//
// Of an array: a: true, l: its new length if it is shorter, and for each element
// that differs u… its value or s… a delta, where … is its index.

// Diff returns the delta that turns old into doc. ok is false if no delta can
// express it: a document has two fields with the same name.
func Diff(old, doc bson.Doc) (diff bson.Doc, ok bool) {
	was, is := fieldsOf(old), fieldsOf(doc)
	if repeats(was) || repeats(is) {
		return nil, false
	}
	same, gone := 0, []string(nil) // fields of doc that are at their place
	var changed []change
	for _, f := range was {
		switch {
		case same == len(is) || is[same].name != f.name:
			gone = append(gone, f.name)
			continue
		case !identical(f.value, is[same].value):
			changed = append(changed, compare(f.name, f.value, is[same].value))
		}
		same++
	}
	added := is[same:]
	gone = slices.DeleteFunc(gone, func(name string) bool {
		return slices.ContainsFunc(added, func(f field) bool { return f.name == name })
	})
	b := new(bson.Builder)
	if len(gone) > 0 {
		b.OpenDoc("d")
		for _, name := range gone {
			b.Bool(name, false)
		}
		b.Close()
	}
	if slices.ContainsFunc(changed, func(c change) bool { return c.delta == nil }) {
		b.OpenDoc("u")
		for _, c := range changed {
			if c.delta == nil {
				b.Value(c.name, c.value)
			}
		}
		b.Close()
	}
	if len(added) > 0 {
		b.OpenDoc("i")
		for _, f := range added {
			b.Value(f.name, f.value)
		}
		b.Close()
	}
	for _, c := range changed {
		if c.delta != nil {
			b.Doc("s"+c.name, c.delta)
		}
	}
	return b.Finish(), true
}

// field is a field of a document.
type field struct {
	name  string
	value bson.Value
}

func fieldsOf(d bson.Doc) (all []field) {
	for name, v := range d.All() {
		all = append(all, field{name, v})
	}
	return all
}

// repeats reports whether two fields have the same name.
func repeats(fields []field) bool {
	const few = 16 // pairs are compared
	if len(fields) <= few {
		for i := range fields {
			for j := range i {
				if fields[i].name == fields[j].name {
					return true
				}
			}
		}
		return false
	}
	seen := make(map[string]struct{}, len(fields))
	for _, f := range fields {
		seen[f.name] = struct{}{}
	}
	return len(seen) < len(fields)
}

// change is a field that has changed: its new value, or the delta.
type change struct {
	name  string
	value bson.Value
	delta bson.Doc // nil for none
}

func identical(a, b bson.Value) bool { return a.Type == b.Type && bytes.Equal(a.Data, b.Data) }

// compare returns the change of a field.
func compare(name string, old, value bson.Value) change {
	c := change{name: name, value: value}
	if old.Type != value.Type {
		return c
	}
	switch value.Type {
	case bson.TypeDocument:
		c.delta, _ = Diff(old.Doc(), value.Doc())
	case bson.TypeArray:
		c.delta = diffArray(old.Doc(), value.Doc())
	}
	return c
}

// diffArray returns the delta of an array; nil if the whole array takes less space, and
// has another length or more than half of its elements changed. An array that only grows
// at its end, or only shrinks, always has a delta, and one of which few elements were
// set: readers expect $push, $pop and {$set: {"a.1": …}} in this form.
func diffArray(old, array bson.Doc) bson.Doc {
	was, is := old.Slice(), array.Slice()
	b := new(bson.Builder).Bool("a", true)
	if len(is) < len(was) {
		b.Int32("l", int32(len(is)))
	}
	edited, replaced := false, 0
	for i, v := range is {
		switch {
		case i >= len(was):
			b.Value("u"+bson.Index(i), v)
		case !identical(was[i], v):
			edited = true
			if c := compare("", was[i], v); c.delta != nil {
				b.Doc("s"+bson.Index(i), c.delta)
			} else {
				replaced++
				b.Value("u"+bson.Index(i), v)
			}
		}
	}
	diff := b.Finish()
	if edited && len(diff) >= len(array) && (len(is) != len(was) || 2*replaced > len(is)) {
		return nil
	}
	return diff
}
