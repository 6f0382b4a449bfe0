package server

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// maxVerbosity is the highest effective verbosity: D5.
const maxVerbosity = 5

// inherited marks a component without a verbosity of its own.
const inherited = -1

// Verbosity is how much each component logs. It is read on every line.
type Verbosity struct {
	mu       sync.Mutex
	set      map[string]int           // by path, "" for all; guarded by mu
	top      atomic.Int32             // the highest in effect
	inEffect map[string]*atomic.Int32 // by tag; the map is not changed
	all      atomic.Int32             // in effect for unknown components
}

func newVerbosity() *Verbosity {
	v := &Verbosity{set: map[string]int{"": 0}, inEffect: map[string]*atomic.Int32{}}
	for _, c := range config.Components {
		v.set[c.Path] = inherited
		v.inEffect[c.Tag] = new(atomic.Int32)
	}
	return v
}

// Set changes the verbosity of the component at path, or of all for the empty
// path; inherited (-1) takes it back. Unknown paths are the caller's mistake
// and change nothing.
func (v *Verbosity) Set(path string, n int) { v.setAll(map[string]int{path: n}) }

func (v *Verbosity) setAll(changes map[string]int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for path, n := range changes {
		if _, ok := v.set[path]; ok {
			v.set[path] = n
		}
	}
	if v.set[""] < 0 {
		v.set[""] = 0
	}
	top := v.set[""]
	v.all.Store(int32(top))
	for _, c := range config.Components {
		n := v.effectiveLocked(c.Path)
		v.inEffect[c.Tag].Store(int32(n))
		top = max(top, n)
	}
	v.top.Store(int32(top))
}

// effectiveLocked returns the verbosity of path, or of its nearest ancestor that has one.
func (v *Verbosity) effectiveLocked(path string) int {
	for path != "" && v.set[path] < 0 {
		path = path[:max(0, strings.LastIndexByte(path, '.'))]
	}
	return v.set[path]
}

// Get returns the verbosity set at path, -1 if it is inherited.
func (v *Verbosity) Get(path string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.set[path]
}

func (v *Verbosity) highest() int { return int(v.top.Load()) }

// of returns the effective verbosity of the component with a tag.
func (v *Verbosity) of(tag string) int {
	if n := v.inEffect[tag]; n != nil {
		return int(n.Load())
	}
	return int(v.all.Load())
}

// Doc is the parameter logComponentVerbosity: {verbosity, command:
// {verbosity}, network: {verbosity, asio: {verbosity}} …}.
func (v *Verbosity) Doc() bson.Doc {
	v.mu.Lock()
	defer v.mu.Unlock()
	b := new(bson.Builder)
	b.Int32("verbosity", int32(v.set[""]))
	open := []string{}
	for _, c := range config.Components {
		for len(open) > 0 && !strings.HasPrefix(c.Path, open[len(open)-1]+".") {
			b.Close()
			open = open[:len(open)-1]
		}
		b.OpenDoc(c.Path[strings.LastIndexByte(c.Path, '.')+1:]).Int32("verbosity", int32(v.set[c.Path]))
		open = append(open, c.Path)
	}
	return b.Finish()
}

// Check reads a value of the parameter logComponentVerbosity and returns what
// puts it into effect; components it does not name stay as they are.
func (v *Verbosity) Check(value bson.Value) (apply func(), err error) {
	if value.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.TypeMismatch, "log component verbosity is not a BSON object: %s", value)
	}
	changes := map[string]int{}
	if err := v.read("", value.Doc(), changes); err != nil {
		return nil, err
	}
	return func() { v.setAll(changes) }, nil
}

// read collects the verbosities below path, which is empty or ends with a dot.
func (v *Verbosity) read(prefix string, d bson.Doc, changes map[string]int) error {
	for name, value := range d.All() {
		path := prefix + name
		switch {
		case name == "verbosity":
			path = strings.TrimSuffix(prefix, ".")
		case !v.known(path):
			return mongoerr.New(mongoerr.BadValue, "Invalid component name %s", path)
		case value.Type == bson.TypeDocument:
			if err := v.read(path+".", value.Doc(), changes); err != nil {
				return err
			}
			continue
		}
		n, ok := wholeNumber(value)
		if !ok {
			return mongoerr.New(mongoerr.BadValue, "Expected %s to be a number, but found %s", path+".verbosity", value.Type)
		}
		changes[path] = int(n)
	}
	return nil
}

func (v *Verbosity) known(path string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.set[path]
	return ok
}
