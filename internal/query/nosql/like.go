package nosql

import "github.com/mayflydb/mayfly/internal/bson"

// like is LIKE: % for any characters, _ for one, [abc] and [^abc] for one of a
// set, escape before what is meant literally.
type like struct {
	value, pattern expression
	escape         rune // 0 for none
}

func (e *like) eval(env *env) (bson.Value, error) {
	v, err := e.value.eval(env)
	if err != nil {
		return bson.Value{}, err
	}
	p, err := e.pattern.eval(env)
	if err != nil || !isText(v) || !isText(p) {
		return bson.Value{}, err
	}
	if err := env.weigh(v, p); err != nil {
		return bson.Value{}, err
	}
	found, err := wildcards(env.meter, parseLike([]rune(p.Str()), e.escape), []rune(v.Str()))
	return bson.Bool(found), err
}

// likePart matches one character, or any number of them if many is set.
type likePart struct {
	many, any bool
	set       []rune // ranges as pairs
	negated   bool
}

func parseLike(p []rune, escape rune) []likePart {
	var parts []likePart
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case escape != 0 && c == escape && i+1 < len(p):
			i++
			parts = append(parts, likePart{set: []rune{p[i], p[i]}})
		case c == '%':
			if len(parts) == 0 || !parts[len(parts)-1].many {
				parts = append(parts, likePart{many: true})
			}
		case c == '_':
			parts = append(parts, likePart{any: true})
		case c == '[':
			if set, n := likeSet(p[i:]); n > 0 {
				parts = append(parts, set)
				i += n - 1
				continue
			}
			parts = append(parts, likePart{set: []rune{c, c}})
		default:
			parts = append(parts, likePart{set: []rune{c, c}})
		}
	}
	return parts
}

// likeSet reads [...]; n is 0 if it is not closed.
func likeSet(p []rune) (set likePart, n int) {
	i := 1
	if i < len(p) && p[i] == '^' {
		set.negated = true
		i++
	}
	for first := true; i < len(p); first = false {
		if p[i] == ']' && !first {
			return set, i + 1
		}
		lo, hi := p[i], p[i]
		if i+2 < len(p) && p[i+1] == '-' && p[i+2] != ']' {
			hi = p[i+2]
			i += 2
		}
		set.set = append(set.set, lo, hi)
		i++
	}
	return likePart{}, 0
}

func (l *likePart) matches(r rune) bool {
	if l.any {
		return true
	}
	for i := 0; i < len(l.set); i += 2 {
		if l.set[i] <= r && r <= l.set[i+1] {
			return !l.negated
		}
	}
	return l.negated
}

// wildcards matches greedily and backtracks to the last % only: linear in
// memory, and at worst length times parts in time.
func wildcards(m *meter, parts []likePart, s []rune) (bool, error) {
	p, i, star, mark := 0, 0, -1, 0
	for n := 1; i < len(s); n++ {
		if n%bytesPerStep == 0 {
			if err := m.work(1); err != nil {
				return false, err
			}
		}
		switch {
		case p < len(parts) && parts[p].many:
			star, mark = p, i
			p++
		case p < len(parts) && parts[p].matches(s[i]):
			p, i = p+1, i+1
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false, nil
		}
	}
	for p < len(parts) && parts[p].many {
		p++
	}
	return p == len(parts), nil
}
