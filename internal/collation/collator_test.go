package collation

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
)

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string // sorted; = joins what is equal
	}{
		{"case decides last", Options{Locale: "en", Strength: 3}, "a A á b B"},
		{"strength 2", Options{Locale: "en", Strength: 2}, "a=A á=Á b"},
		{"strength 1", Options{Locale: "en", Strength: 1}, "a=A=á b"},
		{"numbers", Options{Locale: "en", Strength: 3, NumericOrdering: true}, "a2 a10 b1"},
		{"digits", Options{Locale: "en", Strength: 3}, "a10 a2"},
		{"upper first", Options{Locale: "en", Strength: 3, CaseFirst: "upper"}, "A a B b"},
		{"case level", Options{Locale: "en", Strength: 1, CaseLevel: true}, "a=á A=Á b"},
		{"shifted", Options{Locale: "en", Strength: 1, Shifted: true}, "ab=a-b ac"},
		{"shifted, quaternary", Options{Locale: "en", Strength: 4, Shifted: true}, "a\u2003b a-b ab"},
		{"ignorable", Options{Locale: "en", Strength: 4}, "ab=a\u200bb"},
		{"ignorable, shifted", Options{Locale: "en", Strength: 4, Shifted: true}, "a-b ab=a\u200bb"},
		{"zeros", Options{Locale: "en", Strength: 4, NumericOrdering: true}, "7=007 10"},
		{"shifted spaces", Options{Locale: "en", Strength: 3, Shifted: true, Space: true}, "a\u00a0b a-b ab=a\u2003b"},
		{"shifted case level", Options{Locale: "en", Strength: 1, CaseLevel: true, Shifted: true}, "ab=a-b Ab=A-b"},
		{"shifted numbers", Options{Locale: "en", Strength: 3, NumericOrdering: true, Shifted: true}, "f2=f-2 f10"},
		{"Japan", Options{Locale: "ja", Strength: 3}, "あ=ア い"},
		{"Japan, quaternary", Options{Locale: "ja", Strength: 4}, "あ ア い"},
		{"Canada", Options{Locale: "fr_CA", Strength: 3, Backwards: true}, "cote côte coté côté"},
		{"Sweden", Options{Locale: "sv", Strength: 3}, "a z å ä ö"},
		{"POSIX", Options{Locale: "en_US_POSIX", Strength: 3}, "A B a b"},
		{"identical", Options{Locale: "en", Strength: 5}, "a A"},
	} {
		coll := New(c.o)
		groups := strings.Split(c.want, " ")
		for i, g := range groups {
			same := strings.Split(g, "=")
			for _, s := range same[1:] {
				if coll.Compare(same[0], s) != 0 {
					t.Errorf("%s: %q and %q differ", c.name, same[0], s)
				}
			}
			if i > 0 {
				before := strings.Split(groups[i-1], "=")[0]
				if coll.Compare(before, same[0]) >= 0 || coll.Compare(same[0], before) <= 0 {
					t.Errorf("%s: %q is not before %q", c.name, before, same[0])
				}
			}
		}
		sorted := slices.Clone(groups)
		slices.Reverse(sorted)
		slices.SortFunc(sorted, func(a, b string) int {
			return coll.Compare(a[:strings.IndexByte(a+"=", '=')], b[:strings.IndexByte(b+"=", '=')])
		})
		if !slices.Equal(sorted, groups) {
			t.Errorf("%s: sorted to %q", c.name, sorted)
		}
	}
}

// TestLongNumbers compares numbers of more digits than are taken together.
func TestLongNumbers(t *testing.T) {
	coll := New(Options{Locale: "en", Strength: 3, NumericOrdering: true})
	nine, one := strings.Repeat("9", maxNumber), strings.Repeat("1", maxNumber)
	if coll.Compare(nine, one+"1") <= 0 || coll.Compare(nine[1:], one) >= 0 {
		t.Error("numbers are not split where the server splits them")
	}
}

// TestGoldenKeys pins the keys of every character below U+3000 in some locales:
// they are on disks.
func TestGoldenKeys(t *testing.T) {
	for locale, want := range map[string]string{"root": "ce196579b7d30d29", "de@collation=phonebook": "4e3ddb7207b1bd9e", "sv": "2eadde07ea956270", "ja": "ce196579b7d30d29"} {
		coll, sum := New(Options{Locale: locale, Strength: 3}), sha256.New()
		for r := rune(0); r < 0x3000; r++ {
			sum.Write(coll.AppendKey(nil, string(r)))
		}
		if got := hex.EncodeToString(sum.Sum(nil)[:8]); got != want {
			t.Errorf("%s: the keys are other ones: %s, not %s", locale, got, want)
		}
	}
}

func TestValid(t *testing.T) {
	for locale, want := range map[string]string{
		"en": "ok", "fr_CA": "ok", "de@collation=phonebook": "ok", "zh_Hant": "ok",
		"": "", "zzz": "", "en_GB": "en", "de@collation=nonsense": "", "de@x=y": "",
	} {
		got, suggestion := Valid(locale)
		if got != (want == "ok") || !got && suggestion != want {
			t.Errorf("Valid(%q) = %v, %q", locale, got, suggestion)
		}
	}
}
