package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

// file reads the configuration file, if one was asked for.
func (l *loader) file(path string) []given {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		l.fail(path, "%v", errors.Unwrap(err))
		return nil
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil || len(text) > maxFile {
		l.fail(path, "cannot be read, or has more than %d bytes: %v", maxFile, err)
		return nil
	}
	var root yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(text)).Decode(&root); err != nil {
		if !errors.Is(err, io.EOF) { // an empty file asks for nothing
			l.fail(path, "not YAML: %v", err)
		}
		return nil
	}
	r := reader{l: l, path: path, seen: map[string]bool{}}
	if root.Kind != yaml.DocumentNode || root.Content[0].Kind != yaml.MappingNode {
		if root.Content[0].Tag != "!!null" {
			r.fail(root.Content[0], "not a YAML mapping of options such as net: {port: 27017}")
		}
		return nil
	}
	r.mapping("", root.Content[0])
	return r.all
}

// reader walks a configuration file.
type reader struct {
	l    *loader
	path string
	seen map[string]bool
	all  []given
}

func (r *reader) place(n *yaml.Node) string { return fmt.Sprintf("%s:%d", r.path, n.Line) }

func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	r.l.errors = append(r.l.errors, Error{r.place(n), fmt.Sprintf(format, args...), n.Line})
}

// mapping walks the options below prefix, which is empty or ends with a dot.
func (r *reader) mapping(prefix string, n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		for value.Kind == yaml.AliasNode {
			value = value.Alias
		}
		path := prefix + key.Value
		if r.seen[path] && value.Kind != yaml.MappingNode {
			r.fail(key, "%s is given twice", path)
			continue
		}
		r.seen[path] = true
		r.entry(path, key, value)
	}
}

// entry handles one key: an option, a section, or a mistake.
func (r *reader) entry(path string, key, value *yaml.Node) {
	if p := byPath(path); p != nil {
		r.option(p, key, value)
		return
	}
	if strings.HasPrefix(path, parameterPrefix) {
		// setParameter written with dots.
		r.parameter(strings.TrimPrefix(path, parameterPrefix), key, value)
		return
	}
	if component, ok := componentOf(path); ok {
		r.verbosity(component, path, key, value)
		return
	}
	if ref := refusalOf(path); ref != nil && value.Kind == yaml.ScalarNode {
		if value.Tag != "!!null" && !slices.Contains(ref.harmless, value.Value) {
			r.fail(key, "%s: %s", path, ref.why)
		}
		return
	}
	if isSection(path) {
		switch {
		case value.Kind == yaml.MappingNode:
			r.mapping(path+".", value)
		case value.Tag != "!!null":
			r.fail(key, "%s is a section of options", path)
		}
		return
	}
	r.fail(key, "unknown option %s%s", path, meant(path))
}

func (r *reader) option(p *option, key, value *yaml.Node) {
	switch {
	case p.path == "setParameter" && value.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(value.Content); i += 2 {
			r.parameter(value.Content[i].Value, value.Content[i], value.Content[i+1])
		}
	case p.path == "setParameter" || p.path == "config":
		r.fail(key, "%s cannot be written this way in a file", p.path)
	case value.Kind == yaml.SequenceNode:
		if _, ok := p.target(new(Options)).(*[]string); !ok {
			r.fail(key, "%s is not a list", p.path)
			return
		}
		var parts []string
		for _, e := range value.Content {
			parts = append(parts, e.Value)
		}
		r.add(given{option: p, text: strings.Join(parts, ","), place: r.place(key), line: key.Line})
	case value.Kind != yaml.ScalarNode || value.Tag == "!!null":
		r.fail(key, "%s needs a value", p.path)
	default:
		r.add(given{option: p, text: value.Value, place: r.place(key), line: key.Line})
	}
}

func (r *reader) add(g given) { r.all = append(r.all, g) }

// parameter takes one server parameter; a mapping is handed on as JSON.
func (r *reader) parameter(name string, key, value *yaml.Node) {
	text := value.Value
	if value.Kind != yaml.ScalarNode {
		var v any
		err := value.Decode(&v)
		b, jsonErr := json.Marshal(v)
		if err = errors.Join(err, jsonErr); err != nil {
			r.fail(key, "parameter %s: %v", name, err)
			return
		}
		text = string(b)
	}
	r.add(given{option: byPath("setParameter"), name: name, text: text, place: r.place(key), line: key.Line})
}

// verbosity takes systemLog.component.<component>.verbosity.
func (r *reader) verbosity(component, path string, key, value *yaml.Node) {
	p := option{path: path, bounds: [2]float64{-1, verbosity[1]}}
	n, err := p.whole(value.Value)
	if err != nil {
		r.fail(key, "%s: %v", path, err)
		return
	}
	r.l.options.Log.ComponentVerbosity[component] = n
	r.l.explicit[path] = n
}
