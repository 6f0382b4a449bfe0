package pcre

import (
	"regexp/syntax"

	"github.com/dlclark/regexp2/v2"
)

// All calls yield with the offsets (as Find's) of one match after another. The
// next one is searched from the end of the last one, or from the character
// behind it where that was empty; it never begins a search at the end of s. It
// stops when yield returns false. The offsets are yield's to keep.
func (r *Regexp) All(s string, yield func(offsets []int) bool) error {
	if r.fast != nil && r.exact && r.forgets() {
		r.allFast(s, yield)
		return nil
	}
	if err := r.backtracking(); err != nil {
		return err
	}
	table := runeOffsets(s)
	m, err := r.back.FindStringMatch(s)
	for m != nil && err == nil {
		if !yield(r.bytes(m, table)) {
			return nil
		}
		if end := m.RuneIndex + m.RuneLength; end >= len(table)-1 || m.RuneLength == 0 && end == len(table)-2 {
			return nil
		}
		m, err = r.back.FindNextMatch(m)
	}
	if err != nil {
		return ErrLimit
	}
	return nil
}

func (r *Regexp) allFast(s string, yield func([]int) bool) {
	for from := 0; from < len(s) || from == 0; {
		m := r.fast.FindStringSubmatchIndex(s[from:])
		if m == nil {
			return
		}
		for i := range m {
			if m[i] >= 0 {
				m[i] += from
			}
		}
		if !yield(m) {
			return
		}
		if from = m[1]; m[0] == m[1] {
			from++
			for from < len(s) && s[from]&0xC0 == 0x80 {
				from++
			}
		}
	}
}

// forgets says whether a match does not depend on what is in front of the place
// where the search begins.
func (r *Regexp) forgets() bool {
	tree, err := syntax.Parse(r.fast.String(), syntax.Perl)
	return err == nil && !looksBack(tree)
}

func looksBack(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginLine, syntax.OpBeginText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return true
	}
	for _, sub := range re.Sub {
		if looksBack(sub) {
			return true
		}
	}
	return false
}

// bytes are the offsets of a match of the backtracking engine; table are those
// of the runes.
func (r *Regexp) bytes(m *regexp2.Match, table []int) []int {
	out := make([]int, 0, 2*(r.groups+1))
	for i := range r.groups + 1 {
		g := m.GroupByNumber(i)
		if g == nil || len(g.Captures) == 0 {
			out = append(out, -1, -1)
			continue
		}
		out = append(out, table[g.RuneIndex], table[g.RuneIndex+g.RuneLength])
	}
	if at := 2 * r.start; at > 0 {
		if out[at] >= 0 {
			out[0] = out[at]
		}
		out = append(out[:at], out[at+2:]...)
	}
	return out
}
