package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Types of options that are written in a way of their own.
type (
	level        int  // how much to log: a number, or as many v as the number
	mode         int  // permissions of a file, octal
	profileLevel int  // 0, 1 or 2, or the names of these
	enabling     bool // "enabled" or "disabled"; the flag alone enables
)

var profileNames = []string{"off", "slowOp", "all"}

// set parses text into what the option points at in o, and returns the value
// as getCmdLineOpts shows it.
func (p *option) set(o *Options, text string) (any, error) {
	if p.values != nil {
		if err := p.checkValues(text); err != nil {
			return nil, err
		}
	}
	switch t := p.target(o).(type) {
	case *string:
		*t = text
		return text, nil
	case *[]string:
		list := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
		if len(list) == 0 {
			return nil, errors.New("is empty")
		}
		*t = list
		return text, nil
	case *bool:
		b, err := parseBool(text)
		*t = b
		return b, err
	case *enabling:
		*t = text == "enabled" || text == "true"
		if !*t && text != "disabled" && text != "false" {
			return nil, fmt.Errorf("%q is neither enabled nor disabled", text)
		}
		return map[enabling]string{true: "enabled", false: "disabled"}[*t], nil
	case *float64:
		f, err := p.number(text)
		*t = f
		return f, err
	case *int:
		n, err := p.whole(text)
		*t = n
		return n, err
	case *level:
		if n := len(text); n > 0 && strings.Trim(text, "v") == "" {
			text = strconv.Itoa(min(n, int(p.bounds[1])))
		}
		n, err := p.whole(text)
		*t = level(n)
		return n, err
	case *mode:
		n, err := strconv.ParseUint(text, 8, 32)
		if err != nil || n > 0o777 {
			return nil, fmt.Errorf("%q is not a file's permissions in octal, such as 0700", text)
		}
		*t = mode(n)
		return int(n), nil
	case *profileLevel:
		n, err := strconv.Atoi(text)
		if err != nil {
			n = slices.Index(profileNames, text)
		}
		if n < 0 || n >= len(profileNames) {
			return nil, fmt.Errorf("%q is none of %s", text, strings.Join(profileNames, ", "))
		}
		*t = profileLevel(n)
		return profileNames[n], nil
	}
	return nil, fmt.Errorf("the table has no way to set %s", p.path)
}

// checkValues holds every element of text against the values allowed.
func (p *option) checkValues(text string) error {
	for _, v := range strings.Split(text, ",") {
		if !slices.Contains(p.values, strings.TrimSpace(v)) {
			return fmt.Errorf("%q is none of %s", v, strings.Join(p.values, ", "))
		}
	}
	return nil
}

func (p *option) whole(text string) (int, error) {
	f, err := p.number(text)
	if err == nil && f != math.Trunc(f) {
		err = fmt.Errorf("%q is not a whole number", text)
	}
	return int(f), err
}

func (p *option) number(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	if low, high := p.bounds[0], p.bounds[1]; low != high && (f < low || f > high) {
		return 0, fmt.Errorf("%s is not between %s and %s", text, plain(low), plain(high))
	}
	return f, nil
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func parseBool(text string) (bool, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", text)
}

// isBool reports whether the option's flag stands without a value.
func (p *option) isBool() bool {
	switch p.target(new(Options)).(type) {
	case *bool, *enabling:
		return true
	}
	return false
}

// env is the name of the option's environment variable: MAYFLY_ and the words
// of its path.
func (p *option) env() string { return envName(p.path) }

func envName(path string) string {
	var b strings.Builder
	b.WriteString(envPrefix)
	lower := false // the letter before is a lower-case one
	for _, r := range path {
		upper := r >= 'A' && r <= 'Z'
		if upper && lower {
			b.WriteByte('_')
		}
		lower = r >= 'a' && r <= 'z'
		if r == '.' {
			b.WriteByte('_')
			continue
		}
		if lower {
			r -= 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
