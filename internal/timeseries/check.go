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
