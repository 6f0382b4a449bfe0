package command

import (
	"fmt"
	"sort"
)

// Registry holds the commands by name and alias. It is filled at start and not
// changed afterwards.
type Registry struct {
	byName map[string]*Command
	all    []*Command
}

// NewRegistry makes an empty Registry.
func NewRegistry() *Registry { return &Registry{byName: map[string]*Command{}} }

// Register adds commands; a name that is taken is a bug and panics.
func (r *Registry) Register(commands ...*Command) {
	for _, c := range commands {
		for _, name := range append([]string{c.Name}, c.Aliases...) {
			if r.byName[name] != nil {
				panic(fmt.Sprintf("command: %q is registered twice", name))
			}
			r.byName[name] = c
		}
		r.all = append(r.all, c)
	}
}

// Lookup finds a command by name or alias, or nil.
func (r *Registry) Lookup(name string) *Command { return r.byName[name] }

// All returns the commands in order of their names.
func (r *Registry) All() []*Command {
	all := append([]*Command(nil), r.all...)
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}
