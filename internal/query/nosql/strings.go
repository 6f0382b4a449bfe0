package nosql

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

func init() {
	registerText := func(name string, f func(s string) bson.Value) {
		registerPure(name, 1, 1, func(args []bson.Value) bson.Value {
			if !isText(args[0]) {
				return bson.Value{}
			}
			return f(args[0].Str())
		})
	}
	registerText("LENGTH", func(s string) bson.Value { return bson.Int(int64(len([]rune(s)))) })
	registerText("LOWER", func(s string) bson.Value { return text(strings.ToLower(s)) })
	registerText("UPPER", func(s string) bson.Value { return text(strings.ToUpper(s)) })
	registerText("REVERSE", func(s string) bson.Value { return text(reversed(s)) })
	for name, trim := range map[string]func(s, cut string) string{
		"TRIM": strings.Trim, "LTRIM": strings.TrimLeft, "RTRIM": strings.TrimRight,
	} {
		registerPure(name, 1, 2, func(args []bson.Value) bson.Value {
			if !allText(args) {
				return bson.Value{}
			}
			cut := " \t\r\n\v\f"
			if len(args) == 2 {
				cut = args[1].Str()
			}
			return text(trim(args[0].Str(), cut))
		})
	}
	registerSearch("CONTAINS", strings.Contains)
	registerSearch("STARTSWITH", strings.HasPrefix)
	registerSearch("ENDSWITH", strings.HasSuffix)
	registerSearch("STRINGEQUALS", func(a, b string) bool { return a == b })
	register("CONCAT", 2, -1, func(env *env, args []bson.Value) (bson.Value, error) {
		if !allText(args) {
			return bson.Value{}, nil
		}
		parts := make([]string, len(args))
		for i, a := range args {
			parts[i] = a.Str()
		}
		return concat(env, parts...)
	})
	registerPure("INDEX_OF", 2, 3, indexOf)
	registerPure("SUBSTRING", 3, 3, substring)
	registerPure("LEFT", 2, 2, func(args []bson.Value) bson.Value { return substring([]bson.Value{args[0], bson.Int(0), args[1]}) })
	registerPure("RIGHT", 2, 2, right)
	register("REPLACE", 3, 3, replace)
	register("REPLICATE", 2, 2, replicate)
	register("STRINGSPLIT", 2, 2, split)
	register("STRINGJOIN", 2, 2, join)
}

// registerSearch registers a comparison of two strings, with a third argument
// that reports whether case is of no account.
func registerSearch(name string, f func(s, part string) bool) {
	registerPure(name, 2, 3, func(args []bson.Value) bson.Value {
		if !allText(args[:2]) {
			return bson.Value{}
		}
		a, b := args[0].Str(), args[1].Str()
		if len(args) == 3 {
			if args[2].Type != bson.TypeBool {
				return bson.Value{}
			}
			if args[2].Bool() {
				a, b = strings.ToLower(a), strings.ToLower(b)
			}
		}
		return bson.Bool(f(a, b))
	})
}

func reversed(s string) string {
	r := []rune(s)
	for i, j := 0, len(r)-1; i < j; i, j = i+1, j-1 {
		r[i], r[j] = r[j], r[i]
	}
	return string(r)
}

// indexOf counts characters, from an optional start; -1 if there is none.
func indexOf(args []bson.Value) bson.Value {
	if !allText(args[:2]) {
		return bson.Value{}
	}
	s := []rune(args[0].Str())
	from := int64(0)
	if len(args) == 3 {
		var ok bool
		if from, ok = integer(args[2]); !ok {
			return bson.Value{}
		}
	}
	if from < 0 || from > int64(len(s)) {
		return bson.Int(-1)
	}
	rest := string(s[from:])
	at := strings.Index(rest, args[1].Str())
	if at < 0 {
		return bson.Int(-1)
	}
	return bson.Int(from + int64(len([]rune(rest[:at]))))
}

// substring takes a start and a length in characters; what is outside is
// left away.
func substring(args []bson.Value) bson.Value {
	from, ok1 := truncated(args[1])
	n, ok2 := truncated(args[2])
	if !isText(args[0]) || !ok1 || !ok2 {
		return bson.Value{}
	}
	s := []rune(args[0].Str())
	if from < 0 || from >= int64(len(s)) || n <= 0 {
		return text("")
	}
	return text(string(s[from : from+min(n, int64(len(s))-from)]))
}

func right(args []bson.Value) bson.Value {
	n, ok := truncated(args[1])
	if !isText(args[0]) || !ok {
		return bson.Value{}
	}
	s := []rune(args[0].Str())
	n = max(0, min(n, int64(len(s))))
	return text(string(s[int64(len(s))-n:]))
}

func replace(_ *env, args []bson.Value) (bson.Value, error) {
	if !allText(args) {
		return bson.Value{}, nil
	}
	s, old, by := args[0].Str(), args[1].Str(), args[2].Str()
	if old == "" {
		return args[0], nil
	}
	if n := strings.Count(s, old); len(s)+n*(len(by)-len(old)) > maxString {
		return bson.Value{}, failed("REPLACE makes a string of more than %d bytes.", maxString)
	}
	return text(strings.ReplaceAll(s, old, by)), nil
}

// maxReplicas is the service's bound on the length that REPLICATE makes.
const maxReplicas = 10000

func replicate(_ *env, args []bson.Value) (bson.Value, error) {
	n, ok := integer(args[1])
	if !isText(args[0]) || !ok || n < 0 {
		return bson.Value{}, nil
	}
	s := args[0].Str()
	if s == "" || n == 0 {
		return text(""), nil
	}
	if n > maxReplicas/int64(len(s)) {
		return bson.Value{}, nil
	}
	return text(strings.Repeat(s, int(n))), nil
}

func split(env *env, args []bson.Value) (bson.Value, error) {
	if !allText(args) {
		return bson.Value{}, nil
	}
	s, by := args[0].Str(), args[1].Str()
	if by == "" {
		return env.array(args[:1])
	}
	n := strings.Count(s, by) + 1
	if err := env.makes(elementRoom*n + len(s)); err != nil {
		return bson.Value{}, err
	}
	vs := make([]bson.Value, 0, n)
	for part := range strings.SplitSeq(s, by) {
		vs = append(vs, text(part))
	}
	return bson.Array(vs...), nil
}

func join(env *env, args []bson.Value) (bson.Value, error) {
	if args[0].Type != bson.TypeArray || !isText(args[1]) {
		return bson.Value{}, nil
	}
	elements, err := env.elements(args[0])
	if err != nil {
		return bson.Value{}, err
	}
	parts := make([]string, 0, 2*len(elements))
	for _, v := range elements {
		if !isText(v) {
			return bson.Value{}, nil
		}
		if len(parts) > 0 {
			parts = append(parts, args[1].Str())
		}
		parts = append(parts, v.Str())
	}
	return concat(env, parts...)
}
