package match

// Env is what a match can see besides the document, and what it tells besides
// yes and no. A nil Env is enough for a filter without $expr.
type Env struct {
	recording bool
	index     string
}

// record notes the array element through which a path matched; the outermost
// array is noted last and so stands.
func (e *Env) record(index string) {
	if e != nil && e.recording {
		e.index = index
	}
}

// mark and reset undo the notes of a branch that came to nothing.
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
