package server

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

func testLog(t testing.TB, o config.Log) (*Log, *logText) {
	l, err := OpenLog(o)
	if err != nil {
		t.Fatal(err)
	}
	text := &logText{}
	l.out.mu.w = text
	return l, text
}

// TestLogLines holds lines against the shape that mongod's have.
func TestLogLines(t *testing.T) {
	l, text := testLog(t, config.Log{TimeStampFormat: "iso8601-utc"})
	log := l.Logger("NETWORK")
	ctx := withContext(t.Context(), "conn7")
	d := bson.MustParse(`{a: 1, b: {$date: "2020-01-01T00:00:00Z"}}`)

	log.InfoContext(ctx, "Connection accepted", "id", 22943, "remote", "127.0.0.1:5", "n", 3, "took", 1500*time.Millisecond)
	log.With("ctx", "listener", "a", 1).WithGroup("g").With("id", 5).Error("quote \" and\nline", "f", 1.5, "d", d)
	log.Warn("w", "c", "COMMAND", "id", 4913010, "tags", []string{tagStartupWarning}, "error", mongoerr.New(mongoerr.BadValue, "bad"), "list", []string{"x"})
	log.Log(ctx, LevelFatal, "f", "cause", errors.New("plain"), "none", nil, "v", bson.Int64(5), "ü", "ü")
	slog.New(&handler{log: l}).Info("bare")

	want := []string{
		`"s":"I",  "c":"NETWORK",  "id":22943,   "ctx":"conn7","msg":"Connection accepted","attr":{"remote":"127.0.0.1:5","n":3,"took":1500}}`,
		`"s":"E",  "c":"NETWORK",  "id":0,       "ctx":"listener","msg":"quote \" and\nline","attr":{"a":1,"g":{"id":5,"f":1.5,"d":{"a":1,"b":{"$date":"2020-01-01T00:00:00Z"}}}}}`,
		`"s":"W",  "c":"COMMAND",  "id":4913010, "ctx":"main","msg":"w","attr":{"error":{"code":2,"codeName":"BadValue","errmsg":"bad"},"list":["x"]},"tags":["startupWarnings"]}`,
		`"s":"F",  "c":"NETWORK",  "id":0,       "ctx":"conn7","msg":"f","attr":{"cause":"plain","none":null,"v":5,"ü":"ü"}}`,
		`"s":"I",  "c":"-",        "id":0,       "ctx":"main","msg":"bare"}`,
	}
	lines := strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")
	for i, line := range lines {
		rest, ok := strings.CutPrefix(line, `{"t":{"$date":"`)
		stamp, rest, _ := strings.Cut(rest, `"},`)
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", stamp); !ok || err != nil {
			t.Errorf("time of %s: %v", line, err)
		}
		if rest != want[i] {
			t.Errorf("got  %s\nwant %s", rest, want[i])
		}
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
	if len(lines) != len(want) {
		t.Errorf("%d lines", len(lines))
	}
	warnings, total, _ := l.Lines("startupWarnings")
	if total != 1 || warnings[0] != lines[2] {
		t.Error(warnings)
	}
	if _, _, ok := l.Lines("rs"); ok {
		t.Error("there is a log of that name")
	}
}

func TestLogKeepsTheLastLines(t *testing.T) {
	l, _ := testLog(t, config.Log{})
	log := l.Logger("TEST")
	for i := range ringLines + 10 {
		log.Info("line", "i", i)
	}
	lines, total, _ := l.Lines("global")
	if total != ringLines+10 || len(lines) != ringLines || !strings.Contains(lines[0], `"i":10}`) || !strings.Contains(lines[ringLines-1], `"i":1033}`) {
		t.Error(total, len(lines), lines[0], lines[len(lines)-1])
	}
}

// TestLogBounds holds that no attribute makes a line long.
func TestLogBounds(t *testing.T) {
	l, text := testLog(t, config.Log{})
	b := new(bson.Builder).Int32("first", 1).String("long", strings.Repeat("x", 1<<20))
	for i := range 10000 {
		b.Int32("field"+bson.Index(i), 1)
	}
	l.Logger("TEST").Info("big", "s", strings.Repeat("ü", maxLogAttr), "d", b.Finish(), "v", bson.String(strings.Repeat("y", 1<<20)), "any", make([]int, 1<<20))
	if n := len(text.String()); n > 8*maxLogAttr {
		t.Errorf("the line has %d bytes", n)
	}
	if !json.Valid([]byte(text.String())) {
		t.Error("no JSON")
	}
}

func TestVerbosity(t *testing.T) {
	l, text := testLog(t, config.Log{ComponentVerbosity: map[string]int{"storage": 2}})
	says := func(c string, level slog.Level) bool {
		before := len(text.String())
		l.Logger(c).Log(t.Context(), level, "x")
		return len(text.String()) > before
	}
	p := command.NewParams()
	l.registerParams(p)
	set := func(name, value string) error {
		_, err := p.Set([]command.Setting{{Name: name, Value: bson.MustParseValue(value)}})
		return err
	}
	d2 := slog.LevelDebug - 1
	if !says("STORAGE", d2) || !says("JOURNAL", d2) || says("STORAGE", d2-1) || says("NETWORK", slog.LevelDebug) || says("-", slog.LevelDebug) {
		t.Error("the verbosity of the options")
	}
	if !strings.Contains(text.String(), `"s":"D2", "c":"STORAGE",  "id":`) {
		t.Error(text)
	}
	for _, c := range []struct{ name, value string }{
		{"logLevel", `1`}, {"logComponentVerbosity", `{storage: {journal: {verbosity: 0}, verbosity: -1}, command: 4}`},
	} {
		if err := set(c.name, c.value); err != nil {
			t.Error(err)
		}
	}
	if says("STORAGE", d2) || !says("STORAGE", slog.LevelDebug) || says("JOURNAL", slog.LevelDebug) || !says("COMMAND", slog.LevelDebug-3) || !says("-", slog.LevelDebug) {
		t.Error("the verbosity after setParameter")
	}
	for _, c := range []struct {
		name, value string
		code        mongoerr.Code
	}{
		{"logLevel", `-1`, mongoerr.BadValue},
		{"logLevel", `"1"`, mongoerr.BadValue},
		{"logComponentVerbosity", `"abc"`, mongoerr.TypeMismatch},
		{"logComponentVerbosity", `{command: {verbosity: 2}, moon: {verbosity: 1}}`, mongoerr.BadValue},
		{"logComponentVerbosity", `{command: {verbosity: "abc"}}`, mongoerr.BadValue},
		{"logComponentVerbosity", `{command: {verbosity: 2147483648}}`, mongoerr.BadValue},
	} {
		if err := set(c.name, c.value); !mongoerr.Is(err, c.code) {
			t.Errorf("%s %s: %v", c.name, c.value, err)
		}
	}
	want := bson.MustParse(`{verbosity: 1, command: {verbosity: 4}, storage: {verbosity: -1, journal: {verbosity: 0}}}`)
	got := l.Verbosity.Doc()
	for _, name := range []string{"verbosity", "command"} {
		if g, w := got.Lookup(name), want.Lookup(name); g.String() != w.String() {
			t.Errorf("%s is %s", name, g)
		}
	}
	storage := got.Lookup("storage").Doc()
	if storage.Lookup("verbosity").Int32() != -1 || storage.Lookup("journal").Doc().Lookup("verbosity").Int32() != 0 {
		t.Error(storage)
	}
	if wt := got.Lookup("storage").Doc().Lookup("wt").Doc(); !wt.Has("wtWriteLog") || got.Lookup("network").Doc().Lookup("asio").IsMissing() {
		t.Error(got)
	}
}

func TestLogFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mayfly.log")
	write := func(o config.Log, rotate bool) {
		o.Path = path
		l, err := OpenLog(o)
		if err != nil {
			t.Fatal(err)
		}
		l.Logger("TEST").Info("one")
		if rotate {
			if err := l.Rotate(); err != nil {
				t.Fatal(err)
			}
			l.Logger("TEST").Info("two")
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	state := func() (files, lines int) {
		all, err := filepath.Glob(path + "*")
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return len(all), strings.Count(string(b), "\n")
	}
	for i, step := range []struct {
		o            config.Log
		rotate       bool
		files, lines int
	}{
		{config.Log{}, false, 1, 1},
		{config.Log{Append: true}, false, 1, 2},
		{config.Log{}, false, 2, 1},
		{config.Log{Append: true, Rotate: "reopen"}, true, 2, 4},
		{config.Log{Append: true, Rotate: "rename"}, true, 3, 2},
	} {
		write(step.o, step.rotate)
		if files, lines := state(); files != step.files || lines != step.lines {
			t.Errorf("step %d: %d files, %d lines", i, files, lines)
		}
	}
	if _, err := OpenLog(config.Log{Path: filepath.Join(path, "x")}); err == nil {
		t.Error("a log inside a file was opened")
	}
}

func BenchmarkLog(b *testing.B) {
	l, text := testLog(b, config.Log{})
	log := l.Logger("COMMAND")
	d := bson.MustParse(`{find: "people", filter: {_id: 5}, $db: "test"}`)
	b.ReportAllocs()
	for b.Loop() {
		text.Reset()
		log.LogAttrs(b.Context(), slog.LevelInfo, "Slow query", slog.Int("id", 51803), slog.String("ns", "test.people"), slog.Any("command", d))
	}
}
