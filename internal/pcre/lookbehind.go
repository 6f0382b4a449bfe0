package pcre

import (
	"errors"
	"regexp/syntax"
)

var errLookbehind = errors.New("lookbehind assertion is not fixed length")

// lookbehind is an open (?<=…) or (?<!…). Each of its alternatives must match
// texts of one length only.
type lookbehind struct {
	depth  int   // of the group, in open groups
	starts []int // where its alternatives start in the output
}

// openLookbehind notes the group whose opening has just been written.
func (t *translator) openLookbehind() {
	t.behind = append(t.behind, lookbehind{len(t.open), []int{t.out.Len()}})
}

// alternative notes that a | is about to be written.
func (t *translator) alternative() {
	if n := len(t.behind); n > 0 && t.behind[n-1].depth == len(t.open) {
		t.behind[n-1].starts = append(t.behind[n-1].starts, t.out.Len()+1)
	}
}

// closeGroup checks the lookbehind that a closing parenthesis ends, if it does.
func (t *translator) closeGroup() error {
	n := len(t.behind)
	if n == 0 || t.behind[n-1].depth != len(t.open) {
		return nil
	}
	b := t.behind[n-1]
	t.behind = t.behind[:n-1]
	out := t.out.String()
	for i, start := range b.starts {
		end := len(out)
		if i+1 < len(b.starts) {
			end = b.starts[i+1] - 1
		}
		// What Go's parser does not know is left to the other engine.
		tree, err := syntax.Parse(out[start:end], syntax.Perl)
		if err != nil {
			continue
		}
		if _, fixed := width(tree); !fixed {
			return errLookbehind
		}
	}
	return nil
}

// width is the number of characters that re matches, where it is always the
// same.
func width(re *syntax.Regexp) (n int, fixed bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune), true
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1, true
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		return 0, false
	case syntax.OpRepeat:
		n, fixed = width(re.Sub[0])
		return n * re.Min, fixed && re.Min == re.Max
	}
	for i, sub := range re.Sub {
		w, ok := width(sub)
		if !ok || re.Op == syntax.OpAlternate && i > 0 && w != n {
			return 0, false
		}
		if n += w; re.Op == syntax.OpAlternate {
			n = w
		}
	}
	return n, true
}
