package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestLoad runs scripts, "load" for a server and "router" for a router: "args:" begins the command line, "env:" a variable,
// "file:" the lines of the configuration file. What comes back is every option
// that differs from its default and what getCmdLineOpts would show, or
// everything that is wrong.
func TestLoad(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			in, file := input(t, d.Input)
			in.Router = d.Cmd == "router"
			o, err := Load(in)
			out := ""
			if err != nil {
				out = err.Error() + "\n"
				var all Errors
				if !errors.As(err, &all) {
					out = "! " + out
				}
			} else {
				out = effective(t, o)
			}
			return strings.ReplaceAll(out, file, "FILE")
		})
	})
}

func input(t *testing.T, text string) (Input, string) {
	file := filepath.Join(t.TempDir(), "mayfly.conf")
	var in Input
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if rest, ok := strings.CutPrefix(line, "args:"); ok {
			in.Args = append(in.Args, strings.Fields(rest)...)
		} else if rest, ok := strings.CutPrefix(line, "env: "); ok {
			in.Env = append(in.Env, rest)
		} else if line == "file:" {
			if err := os.WriteFile(file, []byte(strings.Join(lines[i+1:], "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			in.Args = append(in.Args, "--config", file)
			break
		}
	}
	in.Argv = append([]string{"mayfly", "serve"}, in.Args...)
	in.CheckParameter = func(name, value string) error {
		if name == "nonsense" {
			return fmt.Errorf("unknown parameter %s", name)
		}
		return nil
	}
	return in, file
}

func effective(t *testing.T, o *Options) string {
	standard, err := Load(Input{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range table {
		p := &table[i]
		if p.path == "setParameter" {
			continue
		}
		if got, want := fmt.Sprint(value(p, o)), fmt.Sprint(value(p, standard)); got != want {
			fmt.Fprintf(&b, "%s = %s\n", p.path, got)
		}
	}
	for _, p := range o.SetParameters {
		fmt.Fprintf(&b, "parameter %s = %s (%s)\n", p.Name, p.Value, p.Place)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Log.ComponentVerbosity)) {
		fmt.Fprintf(&b, "verbosity of %s = %d\n", name, o.Log.ComponentVerbosity[name])
	}
	for _, s := range o.Explicit() {
		fmt.Fprintf(&b, "explicit %s: %T %v\n", s.Path, s.Value, s.Value)
	}
	if b.Len() == 0 {
		return "all defaults\n"
	}
	return b.String()
}

func value(p *option, o *Options) any {
	switch v := p.target(o).(type) {
	case *string:
		return *v
	case *[]string:
		return *v
	case *bool:
		return *v
	case *enabling:
		return bool(*v)
	case *int:
		return *v
	case *float64:
		return *v
	case *level:
		return *v
	case *mode:
		return fmt.Sprintf("%#o", int(*v))
	case *profileLevel:
		return *v
	}
	return nil
}

// TestTable holds the table to its own rules.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	once := func(names ...string) {
		for _, n := range names {
			if n != "--" && seen[n] {
				t.Errorf("%s stands in the tables twice", n)
			}
			seen[n] = true
		}
	}
	for i := range table {
		p := &table[i]
		once(p.path, "--"+p.flag, p.env())
		once(p.aliases...)
		if p.flag != "" && p.help == "" {
			t.Errorf("%s has no help", p.path)
		}
		if p.flag != "" && !strings.Contains(Help(false)+Help(true), "--"+p.flag+" ") {
			t.Errorf("%s is in no section of --help", p.path)
		}
	}
	for i := range refused {
		for _, f := range refused[i].flags {
			once("--" + f)
		}
		if refused[i].why == "" {
			t.Errorf("%s is refused without a reason", refused[i].path)
		}
	}
	if got := byPath("storage.dbPath").env(); got != "MAYFLY_STORAGE_DB_PATH" {
		t.Error(got)
	}
}

// TestHelpListsWhatIsTaken holds that --help of each command lists the options that the
// command takes, and no others: each is given, and refused or not.
func TestHelpListsWhatIsTaken(t *testing.T) {
	for _, router := range []bool{false, true} {
		help := Help(router)
		for i := range table {
			p := &table[i]
			if p.flag == "" {
				continue
			}
			value := cmp.Or(p.text, "3")
			if p.isBool() {
				value = "true"
			} else if p.values != nil {
				value = p.values[0]
			}
			if p.path == "setParameter" {
				value = "name=3"
			}
			_, err := Load(Input{Args: []string{"--" + p.flag + "=" + value}, Router: router})
			refused := err != nil && strings.Contains("\n"+err.Error(), "\n--"+p.flag+":")
			if listed := strings.Contains(help, "--"+p.flag+" "); listed == refused {
				t.Errorf("--%s: listed by the help of a router (%v): %v; refused: %v (%v)", p.flag, router, listed, refused, err)
			}
		}
	}
}
