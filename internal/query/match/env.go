package match

import (
	"time"

	"github.com/mayflydb/mayfly/internal/query/expr"
)

// Env is what a match can see besides the document, and it records which array
// element matched. One goroutine uses it at a time, for one document after the other. A nil
// Env is enough for a filter without $expr.
type Env struct {
	// Expr holds the variables and the time for $expr.
	Expr *expr.Env

	recording bool
	index     string
	elements  uint
}

// elementsPerTick is how many elements of arrays go by between two ticks of the
// expressions' environment: a filter with a hundred thousand conditions on an
// array of as many elements takes long for a single document.
const elementsPerTick = 64

// tick counts an element of an array, and returns the cause if the operation has been
// ended.
func (e *Env) tick() error {
	if e == nil {
		return nil
	}
	if e.elements++; e.elements%elementsPerTick == 0 && e.Expr != nil {
		return e.Expr.Tick()
	}
	return nil
}

// check returns the cause if the operation has been ended, else nil.
func (e *Env) check() func() error {
	if e == nil || e.Expr == nil {
		return nil
	}
	return e.Expr.Ended
}

// branchesPerTurn is how many of the branches of a filter go by between two looks
// at the operation.
const branchesPerTurn = 256

// turn is called after branch i of a filter. It returns the cause if the operation has
// been ended.
func (e *Env) turn(i int) error {
	if i%branchesPerTurn != branchesPerTurn-1 || e == nil || e.Expr == nil {
		return nil
	}
	return e.Expr.Ended()
}

// expr is the surroundings for $expr.
func (e *Env) expr() *expr.Env {
	if e == nil || e.Expr == nil {
		return expr.NewEnv(time.Now().UnixMilli())
	}
	return e.Expr
}

// record notes the array element through which a path matched; the outermost
// array is noted last and so stands.
func (e *Env) record(index string) {
	if e != nil && e.recording {
		e.index = index
	}
}

// mark and reset undo the notes of a branch that did not match.
func (e *Env) mark() string {
	if e == nil {
		return ""
	}
	return e.index
}

func (e *Env) reset(mark string) {
	if e != nil {
		e.index = mark
	}
}
