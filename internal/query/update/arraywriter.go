package update

import "github.com/mayflydb/mayfly/internal/bson"

// arrayWriter appends an array's elements one by one.
type arrayWriter struct {
	dst   []byte
	start int
	size  int
}

func openArray(dst []byte) arrayWriter {
	return arrayWriter{append(dst, 0, 0, 0, 0), len(dst), 0}
}

func (w *arrayWriter) add(v bson.Value) {
	w.dst = append(appendKey(w.dst, v.Type, bson.Index(w.size)), v.Data...)
	w.size++
}

// copy appends all elements of an array, as they are.
func (w *arrayWriter) copy(a bson.Doc) {
	w.dst = append(w.dst, a[4:len(a)-1]...)
	w.size += a.Len()
}

// finish ends the array, in the form that operators return.
func (w *arrayWriter) finish() ([]byte, bson.Type, error) {
	dst, err := seal(w.dst, w.start)
	return dst, bson.TypeArray, err
}
