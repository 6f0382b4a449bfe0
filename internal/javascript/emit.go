package javascript

import (
	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxEmitted is how many bytes one document may emit (internalQueryMaxJsEmitBytes).
const maxEmitted = 100 << 20

// emits collects what a map function emits.
type emits struct {
	b bson.Builder
	n int
}

// start begins with the next document.
func (e *emits) start() {
	e.n = 0
	e.b = bson.Builder{}
	e.b.Reset(nil)
}

// finish returns the array of what was emitted.
func (e *emits) finish() bson.Value { return bson.ArrayOf(e.b.Finish()) }

// addEmit defines the function emit(key, value).
func (c *scope) addEmit() {
	c.emits = &emits{}
	c.emits.start() // stored functions may be called, and emit, before a map function is
	c.helper("emit", func(args arguments) goja.Value {
		if len(args) != 2 {
			c.throw(mongoerr.New(mongoerr.Code(31220), "emit takes 2 args"))
		}
		k, err := c.write(args[0])
		if err != nil {
			c.throw(err)
		}
		v, err := c.write(args[1])
		if err != nil {
			c.throw(err)
		}
		if k.Type == bson.TypeUndefined {
			k = bson.Null
		}
		e := c.emits
		if e.b.Len()+len(k.Data)+len(v.Data) > maxEmitted {
			c.throw(mongoerr.New(mongoerr.Code(31292), "Size of emitted values exceeds the set size limit of %d bytes", maxEmitted))
		}
		e.b.OpenDoc(bson.Index(e.n)).Value("k", k).Value("v", v).Close()
		e.n++
		return goja.Undefined()
	})
}
