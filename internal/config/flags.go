package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// word is a flag as pflag sees it. What it is set to is collected in
// loader.flags; nothing is parsed here, so that nothing stops at the first
// mistake.
type word struct {
	option  *option
	refusal *refusal
	unknown bool
}

func (w *word) Set(string) error { return nil }
func (w *word) String() string   { return "" }
func (w *word) Type() string     { return "" }

// flagSet declares every flag that has a meaning, wanted or refused.
func flagSet() *pflag.FlagSet {
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	fs.Usage = func() {}
	for i := range table {
		p := &table[i]
		for _, name := range append([]string{p.flag}, p.aliases...) {
			if name == "" || strings.Contains(name, ".") {
				continue
			}
			short := ""
			if name == p.flag {
				short = p.short
			}
			f := fs.VarPF(&word{option: p}, name, short, "")
			if _, ok := p.target(new(Options)).(*level); ok {
				f.NoOptDefVal = "v"
			} else if p.isBool() {
				f.NoOptDefVal = "true"
			}
		}
	}
	for i := range refused {
		for _, name := range refused[i].flags {
			f := fs.VarPF(&word{refusal: &refused[i]}, name, "", "")
			if refused[i].bare {
				f.NoOptDefVal = "true"
			}
		}
	}
	fs.VarPF(&word{}, "version", "", "").NoOptDefVal = "true"
	return fs
}

// flags reads the command line.
func (l *loader) flags() ([]given, error) {
	fs := flagSet()
	args := longNames(fs, l.in.Args)
	var all []given
	var wrong Errors
	collect := func(f *pflag.Flag, value string) error {
		w, place := f.Value.(*word), "--"+f.Name
		switch {
		case w.unknown:
			wrong = append(wrong, Error{Place: place, Message: "unknown option" + meant("--"+f.Name)})
		case w.refusal != nil:
			if !slices.Contains(w.refusal.harmless, value) {
				wrong = append(wrong, Error{Place: place, Message: w.refusal.why})
			}
		case w.option != nil:
			if w.option.inverse {
				value = inverted(value)
			}
			all = append(all, given{option: w.option, text: value, place: place})
		default:
			return ErrVersion
		}
		return nil
	}
	unknown := false
	for {
		all, wrong = nil, nil
		err := fs.ParseAll(args, collect)
		var absent *pflag.NotExistError
		var valueless *pflag.ValueRequiredError
		switch {
		case errors.Is(err, pflag.ErrHelp):
			return nil, ErrHelp
		case errors.Is(err, ErrVersion):
			return nil, ErrVersion
		case errors.As(err, &absent):
			// Known from now on, as one that is wrong; each round learns a name.
			unknown = true
			name := absent.GetSpecifiedName()
			if rest := absent.GetSpecifiedShortnames(); rest != "" {
				args = spellOut(args, rest)
				name = strings.SplitN(rest, "=", 2)[0]
			}
			if fs.Lookup(name) == nil {
				fs.VarPF(&word{unknown: true}, name, "", "").NoOptDefVal = "true"
			}
			continue
		case errors.As(err, &valueless):
			wrong = append(wrong, Error{Place: "--" + valueless.GetFlag().Name, Message: "needs a value"})
		case err != nil:
			wrong = append(wrong, Error{Place: "command line", Message: err.Error()})
		}
		break
	}
	l.errors = append(l.errors, wrong...)
	// What follows an unknown option may have been its value.
	for _, arg := range fs.Args() {
		if !unknown {
			l.fail("command line", "unexpected argument %q", arg)
		}
	}
	return l.once(parameters(l, all)), nil
}

// inverted is what the path becomes where the flag that turns it off has the value
// text; anything but true and false stays, to be refused later.
func inverted(text string) string {
	switch text {
	case "true":
		return "false"
	case "false":
		return "true"
	}
	return text
}

// longNames writes a long name behind one dash, which mongod takes, with two.
func longNames(fs *pflag.FlagSet, args []string) []string {
	args = slices.Clone(args)
	for i, arg := range args {
		if arg == "--" {
			break
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if len(name) > 1 && name != arg && fs.Lookup(name) != nil {
			args[i] = "-" + arg
		}
	}
	return args
}

// spellOut writes the group of unknown letters rest with two dashes.
func spellOut(args []string, rest string) []string {
	for i, arg := range args {
		if strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.HasSuffix(arg, rest) {
			args[i] = "--" + rest
		}
	}
	return args
}

// parameters takes name=value apart where the option is setParameter.
func parameters(l *loader, all []given) []given {
	var out []given
	for _, g := range all {
		if g.option.path == "setParameter" {
			name, value, ok := strings.Cut(g.text, "=")
			if !ok || name == "" {
				l.fail(g.place, "%q is not name=value", g.text)
				continue
			}
			g.name, g.text = name, value
		}
		out = append(out, g)
	}
	return out
}

// once refuses options given twice; the letters of -v add up.
func (l *loader) once(all []given) []given {
	var out []given
	for _, g := range all {
		same := func(h given) bool { return h.option == g.option && h.name == g.name }
		i := slices.IndexFunc(out, same)
		_, adds := g.option.target(new(Options)).(*level)
		switch {
		case i < 0:
			out = append(out, g)
		case adds:
			out[i].text += g.text
		case g.name != "":
			l.fail(g.place, "%s is given twice", g.name)
		default:
			l.fail(g.place, "is given twice")
		}
	}
	return out
}
