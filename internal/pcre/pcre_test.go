package pcre

import (
	"slices"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, tc := range []struct {
		pattern, options, text string
		want                   bool
	}{
		{"^abc$", "", "abc", true},
		{"^abc$", "", "abc\n", true},
		{"^abc$", "", "abc\n\n", false},
		{"(a$)\n", "", "a\n", true},
		{"a$|b", "", "a\n", true},
		{`(*UCP)\byster`, "", "Blue Öyster Cult", false},
		{`\byster`, "", "Blue Öyster Cult", true},
		{`(*UCP)^\w+$`, "", "Öy", true},
		{`^\w+$`, "", "Öy", false},
		{`(*UCP)[[:alpha:]]`, "", "é", true},
		{`[[:alpha:]]`, "", "é", false},
		{`(*UCP)[^[:alpha:]]`, "", "é", false},
		{`[[:^alpha:]]`, "", "abc", false},
		{`[[:^alpha:]]`, "", "ab1", true},
		{"a b c", "x", "abc", true},
		{"abc #comment\n123", "x", "abc123", true},
		{"[a b]", "x", " ", true},
		{`a\ b`, "x", "a b", true},
		{"(?x)a b(?-x) c", "", "ab c", true},
		{"(?x: a b ) c", "", "ab c", true},
		{"foo(?=bar)", "", "foobar", true},
		{"foo(?!bar)", "", "foobar", false},
		{"(?<!foo)bar", "", "foobar", false},
		{"(?<=ab|c|d{3})x", "", "cx", true},
		{`^(abc)\1$`, "", "abcabc", true},
		{`^(?<x>abc)\k<x>$`, "", "abcabc", true},
		{`^(?P<x>abc)(?P=x)$`, "", "abcabc", true},
		{`^(abc)\g{-1}$`, "", "abcabc", true},
		{`^(?>a+)ab`, "", "aaab", false},
		{`^a++ab`, "", "aaab", false},
		{`^\Qa.b\E$`, "", "a.b", true},
		{`^\Qa.b\E$`, "", "axb", false},
		{`^\h+$`, "", " \t\u00a0", true},
		{`^\s$`, "", "\v", true},
		{`^[\S]$`, "", "\v", false},
		{`^[^\s]$`, "", "\v", false},
		{`^\v$`, "", "\n", true},
		{`^a\Rb$`, "", "a\r\nb", true},
		{`^a\Z`, "", "a\n", true},
		{`^a\z`, "", "a\n", false},
		{`^\x41\x{42}\103\x4$`, "", "ABC\x04", true},
		{`^[]a]+$`, "", "]a", true},
		{`^[a[]+$`, "", "a[", true},
		{`^[\w-]+$`, "", "a-b", true},
		{`^[\d-x]+$`, "", "1-x", true},
		{`(?<=a)[b-d-[c]]$`, "", "a-]", true},
		{`a{,2}`, "", "a{,2}", true},
		{`^a{2,3}$`, "", "aaa", true},
		{`^a{1500}$`, "", "a", false},
		{`(?i)a(?-i)bc`, "", "Abc", true},
		{`(?i)a(?-i)bc`, "", "ABc", false},
		{`\p{Han}`, "", "好", true},
		{`\p{^L}`, "", "a", false},
		{`\P{L}`, "", "1", true},
		{`^\p{L&}$`, "", "a", true},
		{`^\p{Xan}\p{Xwd}[\p{Xsp}]\P{Xps}$`, "", "é_ 1", true},
		{`^\p{Xan}$`, "", "_", false},
		{"M.*e", "", "M\ne", false},
		{"M.*e", "s", "M\ne", true},
		{"^S", "m", "F\nS", true},
		{"straße", "i", "STRASSE", false},
		{"", "", "", true},
		{`\cA`, "", "\x01", true},
		{`foo\Kbar`, "", "foobar", true},
		{`(?#note)a`, "", "a", true},
	} {
		re, err := Compile(tc.pattern, tc.options)
		if err != nil {
			t.Errorf("/%s/%s: %v", tc.pattern, tc.options, err)
			continue
		}
		got, err := re.Match(tc.text)
		if err != nil || got != tc.want {
			t.Errorf("/%s/%s on %q: %v, %v; want %v", tc.pattern, tc.options, tc.text, got, err, tc.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for pattern, want := range map[string]string{
		"[invalid":      "missing terminating ] for character class",
		"(a":            "missing closing parenthesis",
		"a)":            "unmatched closing parenthesis",
		"*a":            "quantifier does not follow a repeatable item",
		`a\`:            `\ at end of pattern`,
		"[b-a]":         "range out of order in character class",
		"a{3,2}":        "numbers out of order in {} quantifier",
		`\y`:            `unrecognized character follows \`,
		`\p{Foo}`:       `unknown property after \P or \p`,
		`(a)\2`:         "reference to non-existent subpattern",
		"(?<=a+)b":      "lookbehind assertion is not fixed length",
		"(?<!a?)b":      "lookbehind assertion is not fixed length",
		"(?<=x(a|bc))b": "lookbehind assertion is not fixed length",
		"(?z)":          "unrecognized character after (? or (?-",
	} {
		if _, err := Compile(pattern, ""); err == nil || err.Error() != want {
			t.Errorf("/%s/: %v; want %s", pattern, err, want)
		}
	}
}

func TestFind(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		from          int
		want          []int
	}{
		{"b(c)?", "abd", 0, []int{1, 2, -1, -1}},
		{"a$", "a\n", 0, []int{0, 1}},
		{"(?<x>é)(b)", "aéb", 0, []int{1, 4, 1, 3, 3, 4}},
		{"^a", "aa", 1, nil},
		{"a", "éaa", 3, []int{3, 4}},
		{`foo\K(b)ar`, "foobar", 0, []int{3, 6, 3, 4}},
	} {
		re, err := Compile(tc.pattern, "")
		if err != nil {
			t.Fatal(err)
		}
		got, err := re.Find(tc.text, tc.from)
		if err != nil || len(got) != len(tc.want) {
			t.Fatalf("/%s/: %v %v", tc.pattern, got, err)
		}
		for i := range got {
			if got[i] != tc.want[i] {
				t.Errorf("/%s/ on %q: %v; want %v", tc.pattern, tc.text, got, tc.want)
			}
		}
	}
}

func TestAll(t *testing.T) {
	for _, tc := range []struct {
		pattern, text string
		want          []int // starts and ends
	}{
		{"b", "ababb", []int{1, 2, 3, 4, 4, 5}},
		{"", "aé", []int{0, 0, 1, 1}},
		{"", "", []int{0, 0}},
		{"a*", "aab", []int{0, 2, 2, 2}},
		{"^a", "aaa", []int{0, 1}},
		{"(?m)^a", "a\na", []int{0, 1, 2, 3}},
		{"$", "ab", []int{2, 2}},
		{"(?=é)", "éaé", []int{0, 0, 3, 3}},
		{"(?<=é)a?", "éaé", []int{2, 3, 5, 5}},
		{`\bé?`, "ab ab", []int{0, 0, 2, 2, 3, 3, 5, 5}},
	} {
		re, err := Compile(tc.pattern, "")
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		err = re.All(tc.text, func(m []int) bool { got = append(got, m[:2]...); return true })
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("/%s/ on %q: %v %v; want %v", tc.pattern, tc.text, got, err, tc.want)
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{`^a(b|c)*$`, `[[:alpha:]\d-]{2,}`, `(?<x>a)\k<x>`, `\Qa\E(?i:b)\x{41}`, "(?x) a # b\n c"} {
		f.Add(s, "im", "text")
	}
	f.Fuzz(func(t *testing.T, pattern, options, text string) {
		if re, err := Compile(pattern, options); err == nil && len(text) < 100 {
			_, _ = re.Match(text)
			_, _ = re.Find(text, 0)
			_ = re.All(text, func([]int) bool { return true })
		}
	})
}
