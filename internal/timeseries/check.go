package timeseries

import (
	"errors"
	"fmt"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Check reports what is wrong with a bucket: columns that do not unpack, times that are
// out of order or outside its span, statistics that do not match the values.
func Check(doc bson.Doc, o *schema.Timeseries) error {
	b, err := Open(doc, o)
	if err != nil {
		return err
	}
	var s Series
	if err := b.times(&s); err != nil {
		return err
	}
	last := b.Start
	for i := range s.Len() {
		if s.date(i) < last {
			return errors.New("the times are not in order")
		}
		last = s.date(i)
	}
	if last != b.Last || !Accepts(b.Start, last, o) {
		return errors.New("the last time differs from the statistics, or is outside the bucket's span")
	}
	for name, v := range b.data.All() {
		if err := b.series(v, &s); err != nil {
			return fmt.Errorf("column %s: %w", name, err)
		}
		if name != o.TimeField && !same(s.extreme(-1), b.Min.Lookup(name)) || !same(s.extreme(1), b.Max.Lookup(name)) {
			return fmt.Errorf("the statistics of %s do not match its values", name)
		}
	}
	return nil
}

// Restored returns the measurements of a bucket that a client stores as it was dumped. Errors:
// what is wrong with the bucket, or that its measurements have more bytes than most.
func Restored(doc bson.Doc, o *schema.Timeseries, most int) ([]bson.Doc, error) {
	if err := checkFrame(doc, o); err != nil {
		return nil, err
	}
	if err := Check(doc, o); err != nil {
		return nil, err
	}
	b, err := Open(doc, o)
	if err != nil {
		return nil, err
	}
	if of, is := ID(b.Start), doc.Lookup("_id").ObjectID(); string(of[:4]) != string(is[:4]) { // it is found by that
		return nil, errors.New("the _id does not have the second in which the bucket begins")
	}
	rows, err := b.Rows(nil)
	if err != nil {
		return nil, err
	}
	ms, size := make([]bson.Doc, 0, rows.Count), 0
	for i := range rows.Count {
		d := rows.Doc(i)
		if size += len(d); size > most {
			return nil, fmt.Errorf("its measurements have more than %d bytes", most)
		}
		ms = append(ms, d.Clone())
	}
	return ms, nil
}

// checkFrame reports what is wrong with the fields of a bucket that Check takes for granted.
func checkFrame(doc bson.Doc, o *schema.Timeseries) error {
	for name := range doc.All() {
		switch {
		case name == "_id" || name == "control" || name == "data", name == "meta" && o.MetaField != "":
		default:
			return fmt.Errorf("a bucket has no field %s", name)
		}
	}
	if doc.Lookup("_id").Type != bson.TypeObjectID {
		return errors.New("the _id of a bucket is an ObjectId")
	}
	if meta := doc.Lookup("meta"); !same(meta, NormalMeta(meta)) {
		return errors.New("the fields of a document in meta are sorted by name")
	}
	data, control := doc.Lookup("data"), doc.Lookup("control")
	if data.Type != bson.TypeDocument || control.Type != bson.TypeDocument {
		return errBucket
	}
	names := map[string]bool{}
	for name, v := range data.Doc().All() {
		if names[name] || o.MetaField != "" && name == o.MetaField && name != o.TimeField {
			return fmt.Errorf("data has the field %s, or has it twice", name)
		}
		names[name] = true
		if v.Type != bson.TypeBinary {
			return errForeign
		}
		if subtype, _ := v.Binary(); subtype != columnSubtype {
			return errForeign
		}
	}
	for _, end := range []string{"min", "max"} {
		statistics := control.Doc().Lookup(end)
		if statistics.Type != bson.TypeDocument || statistics.Doc().Len() > len(names) {
			return fmt.Errorf("control.%s does not have the fields of data", end)
		}
		for name := range statistics.Doc().All() {
			if !names[name] {
				return fmt.Errorf("control.%s has the field %s, and data has not", end, name)
			}
		}
	}
	return nil
}

// errForeign says that another server has packed a bucket.
var errForeign = errors.New("the columns of the bucket are not those of this server: MongoDB's have a form of their own, and its measurements can be restored one by one (mongoexport, mongoimport)")
