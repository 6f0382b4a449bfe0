package javascript

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// maxDepth is how deep values that come back may nest.
	maxDepth = 150
	// maxResult is how large they may be, in bytes.
	maxResult = bson.MaxInternalSize
)

var (
	documentType = reflect.TypeFor[*document]()
	boxType      = reflect.TypeFor[*box]()
)

// write makes a BSON value of a JavaScript value. It may run getters, which may
// throw.
func (c *scope) write(v goja.Value) (bson.Value, error) {
	w := writer{scope: c}
	w.b.Reset(nil)
	if err := w.value("", v, bson.Value{}, 0); err != nil {
		return bson.Value{}, err
	}
	_, out := w.b.Finish().First()
	return out, nil
}

// writer writes one value.
type writer struct {
	scope *scope
	b     bson.Builder
}

// value writes a field. original is what the field was when it was read, Missing
// if it was not.
func (w *writer) value(name string, v goja.Value, original bson.Value, depth int) error {
	if strings.IndexByte(name, 0) >= 0 {
		return mongoerr.New(mongoerr.Code(16985), "JavaScript property (name) contains a null char which is not allowed in BSON. ")
	}
	if depth >= maxDepth {
		return mongoerr.New(mongoerr.Code(17279), "Exceeded depth limit of %d when converting js object to BSON. Do you have a cycle?", maxDepth)
	}
	if err := w.fits(len(name)); err != nil {
		return err
	}
	switch {
	case v == nil || goja.IsUndefined(v):
		w.b.Value(name, bson.Undefined)
		return nil
	case goja.IsNull(v):
		w.b.Null(name)
		return nil
	}
	switch v := v.(type) {
	case *goja.Object:
		return w.object(name, v, original, depth)
	case *goja.Symbol:
		return mongoerr.New(mongoerr.Code(16662), "unable to convert JavaScript property to mongo element %s", name)
	case goja.String:
		if err := w.fits(v.Length()); err != nil {
			return err
		}
		text := strings.ToValidUTF8(v.String(), "\uFFFD")
		w.b.String(name, text)
		return w.fits(0)
	}
	switch x := v.Export().(type) {
	case bool:
		w.b.Bool(name, x)
	case int64:
		w.number(name, float64(x), original)
	case float64:
		w.number(name, x, original)
	default:
		return mongoerr.New(mongoerr.Code(16662), "unable to convert JavaScript property to mongo element %s", name)
	}
	return nil
}

// number writes a double, or an int if the field was one and the value fits.
func (w *writer) number(name string, f float64, original bson.Value) {
	if original.Type == bson.TypeInt32 && f == float64(int32(f)) {
		w.b.Int32(name, int32(f))
		return
	}
	w.b.Double(name, f)
}

// fits reports whether the value may still grow by that many bytes.
func (w *writer) fits(bytes int) error {
	if n := w.b.Len() + bytes; n > maxResult {
		return mongoerr.New(mongoerr.Code(17260), "Converting from JavaScript to BSON failed: Object size %d exceeds limit of %d bytes.", n, maxResult)
	}
	return nil
}

func (w *writer) object(name string, o *goja.Object, original bson.Value, depth int) error {
	switch o.ExportType() {
	case documentType:
		return w.document(name, o.Export().(*document), depth)
	case boxType:
		v := o.Export().(*box).value
		if err := w.fits(len(v.Data)); err != nil {
			return err
		}
		w.b.Value(name, v)
		return nil
	}
	switch o.ClassName() {
	case "Array":
		return w.array(name, o, depth)
	case "Function":
		return w.function(name, o)
	case "Date":
		w.b.Date(name, dateOf(o, original))
		return nil
	case "RegExp":
		w.b.Value(name, bson.Regex(cString(own(o, "source")), regexOptions(own(o, "flags"))))
		return w.fits(0)
	}
	w.b.OpenDoc(name)
	for _, key := range o.Keys() {
		if err := w.value(key, o.Get(key), bson.Value{}, depth+1); err != nil {
			return err
		}
	}
	w.b.Close()
	return nil
}

// document writes a document that was read; fields that were not touched are copied as
// bytes.
func (w *writer) document(name string, d *document, depth int) error {
	d.check()
	if !d.changed() {
		if err := w.fits(len(d.doc)); err != nil {
			return err
		}
		w.b.Doc(name, d.doc)
		return nil
	}
	w.b.OpenDoc(name)
	for _, key := range d.Keys() {
		if err := w.field(key, d, depth+1); err != nil {
			return err
		}
	}
	w.b.Close()
	return nil
}

func (w *writer) field(name string, d *document, depth int) error {
	i := d.find(name)
	if i < 0 || !d.touched[i].set && isFixed(d.touched[i].original.Type) {
		v := d.doc.Lookup(name)
		if err := w.fits(len(v.Data)); err != nil {
			return err
		}
		w.b.Value(name, v)
		return nil
	}
	return w.value(name, d.touched[i].value, d.touched[i].original, depth)
}

// isFixed reports whether what is read of a value of that type cannot be changed in
// a way that shows in BSON.
func isFixed(t bson.Type) bool {
	return t != bson.TypeDocument && t != bson.TypeArray && t != bson.TypeDate
}

func (w *writer) array(name string, o *goja.Object, depth int) error {
	w.b.OpenArray(name)
	for i := range o.Get("length").ToInteger() {
		v := o.Get(strconv.FormatInt(i, 10))
		if err := w.value(bson.Index(int(i)), v, bson.Value{}, depth+1); err != nil {
			return err
		}
	}
	w.b.Close()
	return nil
}

// function writes a function as code.
func (w *writer) function(name string, o *goja.Object) error {
	switch o {
	case w.scope.types.minKey:
		w.b.Value(name, bson.MinKey)
		return nil
	case w.scope.types.maxKey:
		w.b.Value(name, bson.MaxKey)
		return nil
	}
	text := o.String()
	if strings.Contains(text, "[native code]") {
		return mongoerr.New(mongoerr.Code(16716), "cannot convert native function to BSON")
	}
	w.b.Value(name, bson.Code(text))
	return w.fits(0)
}

// dateOf is the time of a Date. One that is none, because JavaScript's dates
// reach less far than BSON's, is the original where it comes from one.
func dateOf(o *goja.Object, original bson.Value) int64 {
	t, ok := o.Export().(time.Time)
	if ok {
		return t.UnixMilli()
	}
	if original.Type == bson.TypeDate {
		return original.Date()
	}
	return 0
}

// cString is s up to a zero byte, which no pattern holds in BSON.
func cString(s string) string {
	before, _, _ := strings.Cut(s, "\x00")
	return before
}

// regexOptions are the flags of a RegExp that BSON knows, sorted as they must be.
func regexOptions(flags string) string {
	var b strings.Builder
	for _, f := range "imsu" {
		if strings.ContainsRune(flags, f) {
			b.WriteRune(f)
		}
	}
	return b.String()
}
