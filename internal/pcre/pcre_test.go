package pcre

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
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
		{`^\X$`, "", "e\u0301", true},
		{`^\X\X$`, "", "👩‍👩‍👧x", true},
		{`a(*FAIL)|b`, "", "a", false},
		{`a(*F)|b`, "", "b", true},
		{`^a(*ACCEPT)b`, "", "ax", true},
		{`a+(*COMMIT)b|c`, "", "aac", false},
		{`aa(*PRUNE)b|.c`, "", "aac", true},
		{`a+(*SKIP)b|a`, "", "aaa", false},
		{`^(?:a(*THEN)b|(*:x)c)`, "", "c", true},
		{`^(\d)(?1)$`, "", "12", true},
		{`^(\((?:[^()]|(?1))*\))$`, "", "(a(b)c)", true},
		{`^(\((?:[^()]|(?1))*\))$`, "", "(a(b)c", false},
		{`^(?:a(?R)?b)$`, "", "ab", true},
		{`^(?<n>a|b)(?&n)(?P>n)\g<n>\g'1'$`, "", "abaab", true},
		{`^(?|(a)|(b))\1$`, "", "bb", true},
		{`^(?(DEFINE)(?<x>b))a(?&x)$`, "", "ab", true},
		{`^(a)?(?(1)b|c)$`, "", "ac", false},
		{`^\C\C$`, "", "é", true},
		{`^\N{U+e9}\o{141}$`, "", "éa", true},
		{`^\R\n`, "", "\r\n", false},
		{`(*atomic:a+)ab`, "", "aab", false},
		{`(*plb:a)b`, "", "ab", true},
		{`^(*sr:\w+)$`, "", "abc", true},
		{`(*CRLF)^a.b$`, "", "a\nb", true},
		{`(*LIMIT_MATCH=9)b`, "", "b", true},
		{`(?xx)[a b]c`, "", " c", false},
		{`(?n)(a)\z`, "", "a", true},
		{`(?J)(?<a>x)|(?<a>y)\k<a>`, "", "yy", true},
		{`[[:<:]]a[[:>:]]`, "", "b a", true},
		{`^\w$`, "i", "ſ", false},
		{`^[\w.\-]+$`, "i", "\u212a", false},
		{`^s$`, "i", "ſ", true},
		{`^$`, "m", "a\n", false},
		{`^$`, "m", "a\n\nb", true},
		{`^b?`, "m", "a\n", true},
		{`\w+`, "", "a\xff", false},
	} {
		re, err := Compile(tc.pattern, tc.options)
		if err != nil {
			t.Errorf("/%s/%s: %v", tc.pattern, tc.options, err)
			continue
		}
		got, err := re.Match(tc.text, nil)
		if errors.Is(err, ErrText) && !utf8.ValidString(tc.text) {
			err = nil
		}
		if err != nil || got != tc.want {
			t.Errorf("/%s/%s on %q: %v, %v; want %v", tc.pattern, tc.options, tc.text, got, err, tc.want)
		}
	}
}

func TestErrors(t *testing.T) {
	for pattern, want := range map[string]string{
		"[invalid":                        "missing terminating ] for character class",
		"(a":                              "missing closing parenthesis",
		"a)":                              "unmatched closing parenthesis",
		"*a":                              "quantifier does not follow a repeatable item",
		`a\`:                              `\ at end of pattern`,
		"[b-a]":                           "range out of order in character class",
		"a{3,2}":                          "numbers out of order in {} quantifier",
		`\y`:                              `unrecognized character follows \`,
		`\p{Foo}`:                         `unknown property after \P or \p`,
		`(a)\2`:                           "reference to non-existent subpattern",
		"(?<=a+)b":                        "lookbehind assertion is not fixed length",
		"(?<!a?)b":                        "lookbehind assertion is not fixed length",
		"(?<=x(a|bc))b":                   "lookbehind assertion is not fixed length",
		"(?z)":                            "unrecognized character after (? or (?-",
		`[\d-x]`:                          "invalid range in character class",
		"(?1)":                            "reference to non-existent subpattern",
		"(*NOPE)a":                        "(*VERB) not recognized or malformed",
		`\u0061`:                          `PCRE2 does not support \F, \L, \l, \N{name}, \U, or \u`,
		"(?<n>a)(?<n>)":                   "two named subpatterns have the same name (PCRE2_DUPNAMES not set)",
		"a\xff":                           "UTF-8 error: illegal byte (0xfe or 0xff)",
		"(?<=a\\C)b":                      `\C is not allowed in a lookbehind assertion in UTF-8 mode`,
		strings.Repeat("a", MaxPattern+1): "pattern string is longer than the limit set by the application",
		strings.Repeat("(", 300) + strings.Repeat(")", 300):           "parentheses are too deeply nested",
		strings.Repeat("(?:", 20) + "a" + strings.Repeat("){99}", 20): "regular expression is too large",
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
		got, err := re.Find(tc.text, tc.from, nil)
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
		err = re.All(tc.text, nil, func(m []int) bool { got = append(got, m[:2]...); return true })
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("/%s/ on %q: %v %v; want %v", tc.pattern, tc.text, got, err, tc.want)
		}
	}
}

// TestRunaway matches patterns that take for ever: each ends by a limit, and a
// check that fails ends it before.
func TestRunaway(t *testing.T) {
	long := strings.Repeat("a", 64<<10) + "!"
	for _, tc := range []struct{ pattern, text string }{
		{`(a+)+(?=c)$`, strings.Repeat("a", 40) + "b"},
		{`^(?:(a)|.)*+\1b(?<!x)`, long},
		{`(?:(?=a)a|a)*[bc]`, long},
		{`(\w)(?:\1|a)*[bc]`, long},
		{`^(a(?1)?)*(?=b)`, long},
		{strings.Repeat(`(?=a)a*`, 1500) + "[bc]", long},
	} {
		re, err := Compile(tc.pattern, "")
		if err != nil {
			t.Errorf("/%.40s/: %v", tc.pattern, err)
			continue
		}
		stop := errors.New("stop")
		calls := 0
		_, err = re.Match(tc.text, func() error {
			if calls++; calls == 20 {
				return stop
			}
			return nil
		})
		if !errors.Is(err, ErrLimit) && !errors.Is(err, stop) {
			t.Errorf("/%.40s/: %v after %d checks", tc.pattern, err, calls)
		}
	}
}

// TestShared matches one pattern in many goroutines.
func TestShared(t *testing.T) {
	re, err := Compile(`^(?=.*(\d))(?!x)\w+\1$`, "")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 4 * maxIdle {
		digit := string(rune('0' + n%10))
		all.Go(func() {
			for range 200 {
				if ok, err := re.Match("word"+digit+"some"+digit, nil); !ok || err != nil {
					t.Errorf("%s: %v %v", digit, ok, err)
					return
				}
			}
		})
	}
	all.Wait()
}

// few is a check that lets a match go on for a while.
func few() func() error {
	calls := 0
	return func() error {
		if calls++; calls > 50 {
			return errors.New("stop")
		}
		return nil
	}
}

// agree says that Go's engine, where the pattern runs on it, finds what PCRE2's
// does.
func agree(t *testing.T, pattern, options, text string) {
	re, err := Compile(pattern, options)
	if err != nil || re.fast == nil || !utf8.ValidString(text) {
		return
	}
	slow := &Regexp{pattern: re.pattern, options: re.options, groups: re.groups}
	want, err := slow.Find(text, 0, few())
	if err != nil {
		return
	}
	got, err := re.Match(text, nil)
	if err != nil || got != (want != nil) {
		t.Errorf("/%s/%s on %q: %v %v; PCRE2 finds %v", pattern, options, text, got, err, want)
	}
	if at, err := re.Find(text, 0, nil); err != nil || !slices.Equal(at, want) {
		t.Errorf("/%s/%s on %q: %v %v; PCRE2 finds %v", pattern, options, text, at, err, want)
	}
	var all, slowly [][]int
	_ = re.All(text, nil, func(m []int) bool { all = append(all, m); return true })
	err = slow.All(text, few(), func(m []int) bool { slowly = append(slowly, m); return true })
	if err == nil && !slices.EqualFunc(all, slowly, slices.Equal[[]int]) {
		t.Errorf("/%s/%s on %q: all %v; PCRE2 finds %v", pattern, options, text, all, slowly)
	}
}

// pieces are what TestAgree makes patterns of.
var pieces = []string{
	"a", "b", "S", "ſ", "é", " ", "#", "\n", ".", "^", "$", "(", ")", "(?:", "(?i)", "(?i:", "(?m)", "(?s-i)", "(?x)", "|", "*", "+", "?", "*?",
	"{2}", "{1,2}", "{,2}", "{0}", "[ab]", "[^a]", "[a-c]", `[\w.]`, `[^\Wa]`, "[[:alpha:]]", "[[:^upper:]-]", "[[:punct:] ]", `\w`, `\W`, `\d`, `\s`, `\S`, `\h`,
	`\v`, `\R`, `\N`, `\b`, `\B`, `\A`, `\z`, `\Z`, `\x61`, `\x{e9}`, `\0`, `\cA`, `\Qa.\E`, `\E`, `\p{L}`, `\P{Lu}`, `\p{^Nd}`, "(?<n>", `\-`, "[]a]", "[a\\-]", "-",
}

func TestAgree(t *testing.T) {
	texts := []string{"", "a", "aab\n", "ab\n\nS", "ſSs a.b", "é É\r\n", "a#b -]", "\x01\x00ab", "bb\n"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 30_000 {
		var pattern strings.Builder
		for range 1 + random.IntN(7) {
			pattern.WriteString(pieces[random.IntN(len(pieces))])
		}
		options := []string{"", "i", "m", "s", "x", "im"}[random.IntN(6)]
		agree(t, pattern.String(), options, texts[random.IntN(len(texts))])
		if t.Failed() {
			return
		}
	}
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{`^a(b|c)*$`, `[[:alpha:]\d-]{2,}`, `(?<x>a)\k<x>`, `\Qa\E(?i:b)\x{41}`, "(?x) a # b\n c"} {
		f.Add(s, "im", "text")
	}
	f.Fuzz(func(t *testing.T, pattern, options, text string) {
		agree(t, pattern, options, text)
		if re, err := Compile(pattern, options); err == nil && len(text) < 100 {
			_, _ = re.Match(text, few())
			_, _ = re.Find(text, 0, few())
			_ = re.All(text, few(), func([]int) bool { return true })
		}
	})
}
