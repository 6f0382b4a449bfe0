package expr

// Ender is an operation: Ended returns why it is to end, or nil.
type Ender interface{ Ended() error }

// Interrupt ends work that is long and has no error on its way (parses, sorts of
// what was parsed, plans) with its operation: Turn panics, and whoever began the
// work catches that by Interrupted. The zero value never does.
type Interrupt struct {
	Of    Ender // nil for none
	turns uint
}

// interrupted is what Turn panics with.
type interrupted struct{ err error }

// turnsPerCheck is how many turns are between two checks.
const turnsPerCheck = 256

// Turn counts a piece of work of about a microsecond.
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

// Interrupted, deferred, makes an interrupt of what is below the error of the
// function.
func Interrupted(err *error) {
	switch p := recover().(type) {
	case nil:
	case interrupted:
		*err = p.err
	default:
		panic(p)
	}
}
