package pcre

import "unicode/utf8"

// All calls yield with the offsets (as Find's) of one match after another. The
// next one is searched from the end of the last one, or from the character
// behind it where that was empty; it never begins a search at the end of s. It
// stops when yield returns false. The offsets are yield's to keep. Errors are
// Match's.
func (r *Regexp) All(s string, check func() error, yield func(offsets []int) bool) error {
	if !utf8.ValidString(s) {
		return ErrText
	}
	if r.fast != nil && r.exact && r.forgets() {
		r.allFast(s, yield)
		return nil
	}
	return r.each(s, 0, check, yield)
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
		from = behind(s, m)
	}
}

// behind is where the search goes on after a match. A match that \K made begin
// behind its end goes on at its beginning.
func behind(s string, m []int) int {
	from := max(m[0], m[1])
	if m[0] == m[1] {
		from++
		for from < len(s) && s[from]&0xC0 == 0x80 {
			from++
		}
	}
	return from
}

// forgets reports whether a match does not depend on what is in front of the place
// where the search begins.
func (r *Regexp) forgets() bool {
	tree, err := parseGo(r.fast.String())
	return err == nil && !looksBack(tree)
}
