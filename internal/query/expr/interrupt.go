package expr

// Ender is an operation that may have to end early: Ended returns why, or nil.
type Ender interface{ Ended() error }

// Interrupt ends long work that has no error to return (parsing, sorting what was
// parsed, planning) when its operation ends: Turn panics, and the function that began
// the work recovers by Interrupted. The zero value never ends anything.
type Interrupt struct {
	Of    Ender // nil for none
	turns uint
}

// interrupted is what Turn panics with.
type interrupted struct{ err error }

// turnsPerCheck is how many turns are between two checks.
const turnsPerCheck = 256

// Turn counts a piece of work that takes about a microsecond.
func (i *Interrupt) Turn() {
	if i == nil || i.Of == nil {
		return
	}
	if i.turns++; i.turns%turnsPerCheck == 0 {
		if err := i.Of.Ended(); err != nil {
			panic(interrupted{err})
		}
	}
}

// Interrupted is deferred by the function that began the work, and turns an interrupt
// into that function's error.
func Interrupted(err *error) {
	switch p := recover().(type) {
	case nil:
	case interrupted:
		*err = p.err
	default:
		panic(p)
	}
}
