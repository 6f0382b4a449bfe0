package expr

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// arenaChunk is the size in bytes of the blocks that results are cut from.
	arenaChunk = 2048
	// maxValueBytes bounds one intermediate array, object or string.
	maxValueBytes = 100 << 20
	// maxHeldBytes bounds what the unfinished arrays and objects around the
	// current expression hold together.
	maxHeldBytes = 2 * maxValueBytes
	// largeValue is the size of values, in bytes, from which they are taken from
	// the operation's memory.
	largeValue = 64 << 10
	// heldBytes is what an element takes besides its payload.
	heldBytes = 16
	// ticksPerCheck is how many turns loops take between two checks of the context.
	ticksPerCheck = 16
)

// Env is what an expression is evaluated against. One goroutine uses it at a
// time; it is meant to be reused for one document after the other.
type Env struct {
	// Now is $$NOW, in milliseconds since 1970; zero makes reading it an error,
	// as it is in count and distinct.
	Now int64
	// ClusterTime is $$CLUSTER_TIME; zero makes it the second of Now.
	ClusterTime uint64
	// Collator orders strings in comparisons; nil compares bytes.
	Collator bson.Collator
	// UserRoles is $$USER_ROLES: an array of {_id, role, db}.
	UserRoles bson.Value
	// SearchMeta is $$SEARCH_META.
	SearchMeta bson.Value
	// Meta answers {$meta: name} for the current document ("textScore",
	// "indexKey", "recordId" …), Missing if there is none; it may be nil.
	Meta func(name string) bson.Value
	// Grouping says that expressions are evaluated by a $group that the server
	// would run in its other engine (one that starts the pipeline, or follows
	// only $match, $sort, $skip and $limit): some errors have other codes there.
	Grouping bool

	// Memory is the account of the operation, nil for none.
	Memory *memory.Account

	large   memory.Holding // what the current expression holds
	folding bool           // constants are reduced; there is no document
	ctx     context.Context
	ticks   uint
	held    int

	root  bson.Doc
	vars  []bson.Value
	stack []bson.Value
	arena []byte
}

// NewEnv makes an Env with a time and the values of the user variables, in the
// order of Options.Vars.
func NewEnv(nowMillis int64, vars ...bson.Value) *Env {
	return &Env{Now: nowMillis, vars: append([]bson.Value(nil), vars...)}
}

// Fork makes an Env with the same time, variables and options, for another goroutine.
// Both share the Collator, which only one of them may use.
func (e *Env) Fork() *Env {
	f := *e
	f.ctx, f.root, f.vars, f.stack, f.arena = nil, nil, slices.Clone(e.vars), nil, nil
	f.large = memory.Holding{}
	return &f
}

// WithRoot makes doc the current document ($$ROOT and $$CURRENT) and returns
// the same Env.
func (e *Env) WithRoot(doc bson.Doc) *Env {
	e.root = doc
	e.stack = e.stack[:0]
	e.held = 0
	return e
}

// Watch makes loops in expressions end with the context's error once it is
// done. It is kept until the next call, since a cursor has one for each batch.
func (e *Env) Watch(ctx context.Context) { e.ctx = ctx }

// Context returns the context that Watch was given.
func (e *Env) Context() context.Context {
	if e.ctx == nil {
		return context.Background()
	}
	return e.ctx
}

// Hold makes a holding of the operation's memory.
func (e *Env) Hold() memory.Holding { return e.Memory.Hold(e) }

// Tick is one turn of a loop over elements: now and then it checks whether the
// context is done, and returns its cause.
func (e *Env) Tick() error {
	if e.ticks++; e.ticks%ticksPerCheck == 0 {
		return e.Ended()
	}
	return nil
}

// Ended returns the cause if the context is done, else nil.
func (e *Env) Ended() error {
	if e.ctx != nil && e.ctx.Err() != nil {
		return context.Cause(e.ctx)
	}
	return nil
}

// hold pushes a value that an expression has just made. A caller that holds values sets
// held back to what it was when it takes them from the stack.
func (e *Env) hold(v bson.Value) error {
	e.stack = append(e.stack, v)
	return e.account(len(v.Data) + heldBytes)
}

func (e *Env) account(bytes int) error {
	if e.held += bytes; e.held > maxHeldBytes {
		return tooLarge("result")
	}
	if bytes > largeValue {
		e.Memory.Settle(bytes)
	}
	if e.held > largeValue {
		return e.holdLarge(e.held)
	}
	return nil
}

// holdLarge takes memory for values of n bytes; e may be nil if others count
// them.
func (e *Env) holdLarge(n int) error {
	if e == nil || e.Memory == nil {
		return nil
	}
	if e.large == (memory.Holding{}) {
		e.large = e.Hold()
	}
	return e.large.Set(n + n/2) // what they are made of may still be there
}

// Root returns the current document.
func (e *Env) Root() bson.Doc { return e.root }

// SetVar binds the user variable with that slot, the index of its name in
// Options.Vars.
func (e *Env) SetVar(slot int, v bson.Value) {
	for len(e.vars) <= slot {
		e.vars = append(e.vars, bson.Value{})
	}
	e.vars[slot] = v
}

// code chooses the code of an error: grouping's is that of Grouping.
func (e *Env) code(usual, grouping mongoerr.Code) mongoerr.Code {
	if e.Grouping {
		return grouping
	}
	return usual
}

// Var returns the value of the user variable with that slot, Missing if it
// is unbound.
func (e *Env) Var(slot int) bson.Value {
	if slot >= len(e.vars) {
		return bson.Value{}
	}
	return e.vars[slot]
}

// alloc cuts n bytes with capacity n out of the arena.
func (e *Env) alloc(n int) []byte {
	if n > arenaChunk/4 {
		return make([]byte, n)
	}
	if cap(e.arena)-len(e.arena) < n {
		e.arena = make([]byte, 0, arenaChunk)
	}
	at := len(e.arena)
	e.arena = e.arena[: at+n : cap(e.arena)]
	return e.arena[at : at+n : at+n]
}

// The constructors below are those of package bson, allocating in the arena.

// Int32 makes an int.
func (e *Env) Int32(i int32) bson.Value {
	b := e.alloc(4)
	binary.LittleEndian.PutUint32(b, uint32(i))
	return bson.Value{Type: bson.TypeInt32, Data: b}
}

// Int64 makes a long.
func (e *Env) Int64(i int64) bson.Value { return e.eight(bson.TypeInt64, uint64(i)) }

// Int makes an int if i fits into one, else a long.
func (e *Env) Int(i int64) bson.Value {
	if i == int64(int32(i)) {
		return e.Int32(int32(i))
	}
	return e.Int64(i)
}

// Double makes a double.
func (e *Env) Double(f float64) bson.Value { return e.eight(bson.TypeDouble, math.Float64bits(f)) }

// Date makes a date from milliseconds since 1970.
func (e *Env) Date(ms int64) bson.Value { return e.eight(bson.TypeDate, uint64(ms)) }

// Decimal makes a decimal.
func (e *Env) Decimal(d bson.Decimal128) bson.Value {
	b := e.alloc(16)
	binary.LittleEndian.PutUint64(b, d.L)
	binary.LittleEndian.PutUint64(b[8:], d.H)
	return bson.Value{Type: bson.TypeDecimal, Data: b}
}

// String makes a string.
func (e *Env) String(s string) bson.Value {
	b := e.alloc(len(s) + 5)
	binary.LittleEndian.PutUint32(b, uint32(len(s)+1))
	copy(b[4:], s)
	b[len(b)-1] = 0
	return bson.Value{Type: bson.TypeString, Data: b}
}

func (e *Env) eight(t bson.Type, u uint64) bson.Value {
	b := e.alloc(8)
	binary.LittleEndian.PutUint64(b, u)
	return bson.Value{Type: t, Data: b}
}

// The value stack collects a variable number of intermediate results without
// allocating: mark, then push, then read since(mark) or build with takeArray.
// Evaluating an operand may grow the stack, so a slice of it must not be held
// across an Eval.

func (e *Env) mark() int                   { return len(e.stack) }
func (e *Env) push(v bson.Value)           { e.stack = append(e.stack, v) }
func (e *Env) since(mark int) []bson.Value { return e.stack[mark:] }
func (e *Env) release(mark int)            { e.stack = e.stack[:mark] }

// compare orders two values under the collation.
func (e *Env) compare(a, b bson.Value) int { return bson.CompareWith(a, b, e.Collator) }

// takeArray builds an array of the values pushed since mark and releases them.
func (e *Env) takeArray(mark int) (bson.Value, error) {
	v, err := e.array(e.stack[mark:])
	e.release(mark)
	return v, err
}

// array builds an array in the arena; a Missing element becomes null.
func (e *Env) array(vs []bson.Value) (bson.Value, error) {
	size := 5
	for i, v := range vs {
		size += 2 + len(v.Data) + digits(i)
		if size > maxValueBytes {
			return bson.Value{}, tooLarge("array")
		}
	}
	if size > largeValue {
		if err := e.holdLarge(e.held + size); err != nil {
			return bson.Value{}, err
		}
	}
	b := e.alloc(size)
	binary.LittleEndian.PutUint32(b, uint32(size))
	at := 4
	for i, v := range vs {
		if v.IsMissing() {
			v = bson.Null
		}
		b[at] = byte(v.Type)
		at = len(strconv.AppendInt(b[:at+1], int64(i), 10))
		b[at] = 0
		at += 1 + copy(b[at+1:], v.Data)
	}
	b[at] = 0
	return bson.Value{Type: bson.TypeArray, Data: b}, nil
}

// object builds a document in the arena, leaving Missing values out.
func (e *Env) object(names []string, vs []bson.Value) (bson.Value, error) {
	size := 5
	for i, v := range vs {
		if v.IsMissing() {
			continue
		}
		size += 2 + len(v.Data) + len(names[i])
		if size > maxValueBytes {
			return bson.Value{}, tooLarge("object")
		}
	}
	if size > largeValue {
		if err := e.holdLarge(e.held + size); err != nil {
			return bson.Value{}, err
		}
	}
	b := e.alloc(size)
	binary.LittleEndian.PutUint32(b, uint32(size))
	at := 4
	for i, v := range vs {
		if !v.IsMissing() {
			at = putElement(b, at, names[i], v)
		}
	}
	b[at] = 0
	return bson.Value{Type: bson.TypeDocument, Data: b}, nil
}

// putElement writes an element at b[at:] and returns the offset after it.
func putElement(b []byte, at int, name string, v bson.Value) int {
	b[at] = byte(v.Type)
	at += 1 + copy(b[at+1:], name)
	b[at] = 0
	return at + 1 + copy(b[at+1:], v.Data)
}

// digits is the length of the decimal form of an array index.
func digits(i int) int {
	n := 1
	for ; i >= 10; i /= 10 {
		n++
	}
	return n
}

func tooLarge(what string) error {
	return mongoerr.New(mongoerr.ExceededMemoryLimit,
		"an intermediate %s would use more than the limit of %d bytes", what, maxValueBytes)
}
