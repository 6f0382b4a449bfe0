//go:build cldr

package collation

import (
	"bufio"
	"bytes"
	"flag"
	"os"
	"strconv"
	"strings"
	"testing"
)

var cldrFile = flag.String("cldr", "", "a file of CLDR's collation test, CollationTest_CLDR_…_SHORT.txt")

// TestCLDR counts how many lines of CLDR's collation test do not sort behind the
// line before them. (go test -tags cldr ./internal/collation -run CLDR -v -cldr FILE)
func TestCLDR(t *testing.T) {
	f, err := os.Open(*cldrFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	shifted := strings.Contains(*cldrFile, "SHIFTED")
	o := Options{Locale: "root", Strength: 3, Shifted: shifted}
	if shifted {
		o.Strength = 4
	}
	c := New(o)
	// What people of today's large languages write: Latin, Greek, Cyrillic,
	// Armenian, Hebrew, Arabic, Indic scripts, Thai, kana, Han and Hangul.
	common := func(s string) bool {
		for _, r := range s {
			if r > 0x0E7F && (r < 0x1E00 || r > 0x206F) && (r < 0x3040 || r > 0x30FF) && (r < 0x4E00 || r > 0x9FA5) && (r < 0xAC00 || r > 0xD7A3) {
				return false
			}
		}
		return true
	}
	lines, pairs, wrong, everyday, everydayWrong := 0, 0, 0, 0, 0
	var last, key []byte
	lastText := ""
	for in := bufio.NewScanner(f); in.Scan(); {
		text, ok := decodeLine(in.Text())
		if !ok {
			continue
		}
		lines++
		key = c.AppendKey(key[:0], text)
		if last != nil {
			pairs++
			usual, sorted := common(text) && common(lastText), bytes.Compare(last, key) <= 0
			if usual {
				everyday++
			}
			if !sorted {
				wrong++
			}
			if !sorted && usual {
				everydayWrong++
			}
		}
		last, lastText = append(last[:0], key...), text
	}
	t.Logf("%d lines, %d pairs, %d out of order (%.2f %%); of %d pairs of everyday characters, %d (%.2f %%)",
		lines, pairs, wrong, 100*float64(wrong)/float64(pairs), everyday, everydayWrong, 100*float64(everydayWrong)/float64(everyday))
}

// decodeLine reads the code points in front of a line.
func decodeLine(line string) (string, bool) {
	line, _, _ = strings.Cut(line, ";")
	line, _, _ = strings.Cut(line, "#")
	var b strings.Builder
	for _, hex := range strings.Fields(line) {
		n, err := strconv.ParseUint(hex, 16, 32)
		if err != nil || n >= 0xD800 && n < 0xE000 {
			return "", false
		}
		b.WriteRune(rune(n))
	}
	return b.String(), b.Len() > 0
}
