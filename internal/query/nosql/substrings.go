package nosql

import (
	"strings"
	"unicode/utf8"

	"github.com/mayflydb/mayfly/internal/bson"
)

func init() {
	// What stands before and after a separator; the whole string, and nothing,
	// if there is none.
	for name, f := range map[string]func(s, separator string) string{
		"SUBSTRINGBEFORE": func(s, separator string) string {
			before, _, _ := strings.Cut(s, separator)
			return before
		},
		"SUBSTRINGAFTER": func(s, separator string) string {
			_, after, _ := strings.Cut(s, separator)
			return after
		},
		"LASTSUBSTRINGBEFORE": func(s, separator string) string {
			if at := strings.LastIndex(s, separator); at >= 0 {
				return s[:at]
			}
			return s
		},
		"LASTSUBSTRINGAFTER": func(s, separator string) string {
			if at := strings.LastIndex(s, separator); at >= 0 {
				return s[at+len(separator):]
			}
			return ""
		},
	} {
		registerPure(name, 2, 2, func(args []bson.Value) bson.Value {
			if !allText(args) {
				return bson.Value{}
			}
			return text(f(args[0].Str(), args[1].Str()))
		})
	}
	registerPure("LASTINDEXOF", 2, 2, func(args []bson.Value) bson.Value {
		if !allText(args) {
			return bson.Value{}
		}
		at := strings.LastIndex(args[0].Str(), args[1].Str())
		if at < 0 {
			return bson.Int(-1)
		}
		return bson.Int(int64(utf8.RuneCountInString(args[0].Str()[:at])))
	})
	for _, any := range []bool{true, false} {
		for _, fold := range []bool{true, false} {
			name := "CONTAINS_" + map[bool]string{true: "ANY", false: "ALL"}[any] + "_" + map[bool]string{true: "CI", false: "CS"}[fold]
			f := func(args []bson.Value) bson.Value { return containsTexts(args, any, fold) }
			registerPure(name, 2, -1, f)
			registerPure(strings.ReplaceAll(name, "_", ""), 2, -1, f)
		}
	}
}

// containsTexts reports whether a string contains any, or all, of others.
func containsTexts(args []bson.Value, any, fold bool) bson.Value {
	if !allText(args) {
		return bson.Value{}
	}
	s := args[0].Str()
	if fold {
		s = strings.ToLower(s)
	}
	for _, a := range args[1:] {
		part := a.Str()
		if fold {
			part = strings.ToLower(part)
		}
		if strings.Contains(s, part) == any {
			return bson.Bool(any)
		}
	}
	return bson.Bool(!any)
}
