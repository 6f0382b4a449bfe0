package javascript

import (
	"crypto/md5"
	_ "embed"
	"encoding/hex"
	"strings"
	"time"

	"github.com/dop251/goja"

	"github.com/mayflydb/mayfly/internal/bson"
)

// preludeName is the file of the helpers in traces.
const preludeName = "prelude.js"

// preludeText are the helpers written in JavaScript.
//
//go:embed prelude.js
var preludeText string

// maxPrinted is how much of a line print writes to the log, in bytes.
const maxPrinted = 4 << 10

// addHelpers defines the global functions that are not written in JavaScript.
func (c *scope) addHelpers() {
	c.helper("print", func(args arguments) goja.Value {
		words := make([]string, len(args))
		for i := range args {
			words[i] = args.text(i)
		}
		line := strings.ToValidUTF8(strings.Join(words, " "), "\uFFFD")
		if len(line) > maxPrinted {
			line = strings.ToValidUTF8(line[:maxPrinted], "") + "…"
		}
		c.engine.print(line)
		return goja.Undefined()
	})
	c.helper("sleep", func(args arguments) goja.Value {
		c.watch.sleep(time.Duration(min(max(args.at(0).ToInteger(), 0), callTimeout.Milliseconds())) * time.Millisecond)
		return goja.Undefined()
	})
	c.helper("hex_md5", func(args arguments) goja.Value {
		if len(args) != 1 {
			c.reject("hex_md5 takes a single string argument -- hex_md5(string)")
		}
		sum := md5.Sum([]byte(args.text(0)))
		return c.text(hex.EncodeToString(sum[:]))
	})
	c.helper("bsonWoCompare", func(args arguments) goja.Value {
		return c.vm.ToValue(bson.Compare(c.written(args.at(0)), c.written(args.at(1))))
	})
	c.function(c.vm.Get("Object").ToObject(c.vm), "bsonsize", func(call goja.FunctionCall) goja.Value {
		if len(call.Arguments) != 1 {
			c.reject("bsonsize needs 1 argument")
		}
		if goja.IsNull(call.Argument(0)) {
			return c.vm.ToValue(0)
		}
		v := c.written(call.Argument(0))
		if v.Type != bson.TypeDocument {
			c.reject("argument to bsonsize has to be an object")
		}
		return c.vm.ToValue(len(v.Data))
	})
	c.helper("bsonBinaryEqual", func(args arguments) goja.Value {
		a, b := c.written(args.at(0)), c.written(args.at(1))
		return c.vm.ToValue(a.Type == b.Type && string(a.Data) == string(b.Data))
	})
}

// written is write for a helper.
func (c *scope) written(v goja.Value) bson.Value {
	out, err := c.write(v)
	if err != nil {
		c.throw(err)
	}
	return out
}

// rejectOn throws an error of the runtime.
func (c *scope) rejectOn(err error) {
	if err != nil {
		c.rethrow(err)
	}
}
