package update

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// Context is what one application of an update depends on apart from the document. It
// may be used for document after document, by one goroutine.
type Context struct {
	// ArrayIndex is the name of the element ("0", "1" …) that the positional $
	// stands for, as match.Filter.MatchArrayIndex tells; empty for none.
	ArrayIndex string
	// Env evaluates the expressions of a pipeline; its Now is also the time of
	// $currentDate.
	Env *expr.Env
	// Timestamp makes the timestamp of {$currentDate: {a: {$type:
	// "timestamp"}}} and those in the place of Timestamp(0, 0) in a replacement;
	// nil derives one from Env.Now.
	Timestamp func() uint64
	// KeepZeroTimestamps leaves Timestamp(0, 0) in a replacement as it is.
	KeepZeroTimestamps bool
	// Memory is the buffer in which the new document of modifiers and replacements is
	// built. What was in it is overwritten, and it grows as needed. Nil gives each
	// document memory of its own.
	Memory *[]byte
	// Insert says that the document is being inserted by an upsert, so that
	// $setOnInsert acts. Update.Upsert sets it.
	Insert bool

	doc     bson.Doc
	changed bool
	deep    bool         // something was written that may nest too deeply
	renamed []bson.Value // the value that each $rename moves; Missing if none
}

// tick is one of many steps on one document, between which an operation may end.
func (c *Context) tick() error {
	if c.Env == nil {
		return nil
	}
	return c.Env.Tick()
}

func (c *Context) start(doc bson.Doc) {
	c.doc, c.changed, c.deep, c.renamed = doc, false, false, nil
}

// room is memory for a document of about so many bytes.
func (c *Context) room(size int) []byte {
	if c.Memory == nil {
		return make([]byte, 0, size)
	}
	if cap(*c.Memory) < size {
		*c.Memory = make([]byte, 0, size)
	}
	return (*c.Memory)[:0]
}

func (c *Context) now() int64 {
	if c.Env == nil {
		return 0
	}
	return c.Env.Now
}

func (c *Context) timestamp() uint64 {
	if c.Timestamp != nil {
		return c.Timestamp()
	}
	return uint64(c.now()/1000)<<32 | 1
}

// id is the document's _id as messages show it: {_id: 1}.
func (c *Context) id() string {
	if v := c.doc.Lookup("_id"); !v.IsMissing() {
		return "{" + elementText("_id", v) + "}"
	}
	return "{no id}"
}

// elementText is a field as the server's messages print one: a: 1.
func elementText(name string, v bson.Value) string { return name + ": " + v.String() }

// frame is one step of the path from the document to the current value. v is Missing
// for a step that the document does not have.
type frame struct {
	up   *frame
	name string
	v    bson.Value
}

// path returns the dotted path to a frame, followed by name unless that is empty.
func (f *frame) path(name string) string {
	var parts []string
	if name != "" {
		parts = append(parts, name)
	}
	for ; f != nil; f = f.up {
		parts = append(parts, f.name)
	}
	var b strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		b.WriteString(parts[i])
		if i > 0 {
			b.WriteByte('.')
		}
	}
	return b.String()
}

// existing returns the innermost frame that the document has, or nil.
func (f *frame) existing() *frame {
	for f != nil && f.v.IsMissing() {
		f = f.up
	}
	return f
}

// text is the value at a frame with its name, as messages show it: {a: 1}.
func (f *frame) text() string { return "{" + elementText(f.name, f.v) + "}" }
