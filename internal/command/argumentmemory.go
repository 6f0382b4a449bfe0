package command

import "github.com/mayflydb/mayfly/internal/bson"

// maxKeptArguments bounds the values and the documents for which memory is kept for
// the next request.
const maxKeptArguments = 1 << 10

// argumentMemory is memory for Args that consecutive requests reuse. It has the Args of
// documents inside a command, one after the other.
type argumentMemory struct {
	values []bson.Value
	slots  []uint8
	subs   []Args
	spans  []span
	lent   bool // subs and spans are a command's
}

// lend returns Args for a document, with memory for their fields.
func (m *argumentMemory) lend(f *Fields) Args {
	n := min(len(f.fields), usualFields)
	if m == nil {
		return Args{fields: f, values: make([]bson.Value, 0, n), slots: make([]uint8, len(f.fields))}
	}
	if cap(m.values)-len(m.values) < n { // earlier Args keep their memory
		m.values = make([]bson.Value, 0, max(2*cap(m.values), n))
	}
	if cap(m.slots)-len(m.slots) < len(f.fields) {
		m.slots = make([]uint8, 0, max(2*cap(m.slots), len(f.fields)))
	}
	v, s := len(m.values), len(m.slots)
	m.values, m.slots = m.values[:v+n], m.slots[:s+len(f.fields)]
	return Args{fields: f, values: m.values[v : v : v+n], slots: m.slots[s : s+len(f.fields)]}
}

// end takes the memory back, or abandons it if it may still be read.
func (m *argumentMemory) end(back bool) {
	if !back || cap(m.values) > maxKeptArguments || cap(m.subs) > maxKeptArguments {
		*m = argumentMemory{}
		return
	}
	clear(m.values)
	clear(m.slots)
	clear(m.subs)
	*m = argumentMemory{values: m.values[:0], slots: m.slots[:0], subs: m.subs[:0], spans: m.spans[:0]}
}
