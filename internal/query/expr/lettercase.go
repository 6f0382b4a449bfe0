package expr

import "github.com/mayflydb/mayfly/internal/bson"

func init() {
	registerUnary("$toLower", func(env *Env, v bson.Value) (bson.Value, error) { return mapBytes(env, v, asciiLower) })
	registerUnary("$toUpper", func(env *Env, v bson.Value) (bson.Value, error) { return mapBytes(env, v, asciiUpper) })
	registerBinary("$strcasecmp", evalStrcasecmp)
}

// The server changes the case of ASCII letters only.

func asciiLower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func asciiUpper(c byte) byte {
	if c >= 'a' && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}

func mapBytes(env *Env, v bson.Value, f func(byte) byte) (bson.Value, error) {
	s, err := coerceToString(v)
	if err != nil {
		return bson.Value{}, err
	}
	out, body, err := env.newString(len(s))
	for i := range body {
		body[i] = f(s[i])
	}
	return out, err
}

func evalStrcasecmp(_ *Env, a, b bson.Value) (bson.Value, error) {
	s, err := coerceToString(a)
	if err != nil {
		return bson.Value{}, err
	}
	t, err := coerceToString(b)
	if err != nil {
		return bson.Value{}, err
	}
	for i := 0; i < len(s) && i < len(t); i++ {
		if c, d := asciiUpper(s[i]), asciiUpper(t[i]); c != d {
			return order(int(c), int(d)), nil
		}
	}
	return order(len(s), len(t)), nil
}

// order is -1, 0 or 1.
func order(a, b int) bson.Value {
	switch {
	case a < b:
		return smallInt(-1)
	case a > b:
		return smallInt(1)
	}
	return smallInt(0)
}
