package accountimport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// item is one, as it was read.
type item struct {
	raw    json.RawMessage
	fields map[string]any // numbers as json.Number
	id     string
	key    string // its partition key, as the header has it
}

// ofServer are the properties that a server adds.
var ofServer = []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"}

// readItem reads an item of a container whose partition key is at paths.
func readItem(raw json.RawMessage, paths []string) (*item, error) {
	i := &item{raw: raw}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&i.fields); err != nil {
		return nil, err
	}
	id, ok := i.fields["id"].(string)
	if !ok {
		return nil, fmt.Errorf("an item without an id: %.100s", raw)
	}
	i.id = id
	var key []any
	for _, path := range paths {
		key = append(key, at(i.fields, path))
	}
	text, err := json.Marshal(key)
	i.key = ascii(text)
	for _, name := range ofServer {
		delete(i.fields, name)
	}
	return i, err
}

// undefined stands for a property that is not there, in the header of a partition key.
var undefined = map[string]any{}

// at is the value at a path of a partition key, /a/b or /"a b"/c.
func at(fields map[string]any, path string) any {
	var v any = fields
	for _, name := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		in, ok := v.(map[string]any)
		if !ok {
			return undefined
		}
		if v, ok = in[strings.Trim(name, `"`)]; !ok {
			return undefined
		}
	}
	switch v.(type) {
	case map[string]any, []any:
		return undefined
	}
	return v
}

// ascii escapes what a header cannot have.
func ascii(text []byte) string {
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return b.String()
}

// same reports whether two values are equal: numbers by what they are, objects in any order.
func same(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, v := range a {
			other, ok := b[name]
			if !ok || !same(v, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		if !ok || a == b {
			return ok
		}
		x, err1 := strconv.ParseFloat(string(a), 64)
		y, err2 := strconv.ParseFloat(string(b), 64)
		return err1 == nil && err2 == nil && x == y
	}
	return a == b
}
