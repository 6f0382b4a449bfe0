package expr

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Deps is what expressions read.
type Deps struct {
	// Paths are the dotted paths of the current document, each once, in the order
	// in which they were found.
	Paths []string
	// Whole is true if the whole document is read; Paths may then be incomplete.
	Whole bool
	// Vars are the names of the user variables read that the expression does not
	// bind itself: those of Options.Vars.
	Vars []string
	// Meta are the names that {$meta: name} reads.
	Meta []string
	// Random is true if the result may differ from one evaluation to the next
	// ($rand, $sampleRate).
	Random bool

	paths nameSet // those in Paths, once they are many
}

// linearNames is the number of names up to which they are compared one by one.
const linearNames = 16

// nameSet is the set of the names in a list that only grows.
type nameSet map[string]struct{}

// append adds a name to the list whose set is d, unless it is there.
func (d *nameSet) append(list []string, name string) []string {
	if len(list) < linearNames {
		return appendNew(list, name)
	}
	if *d == nil {
		*d = make(nameSet, 2*len(list))
	}
	for i := len(*d); i < len(list); i++ { // what came before there was a set
		(*d)[list[i]] = struct{}{}
	}
	if _, have := (*d)[name]; have {
		return list
	}
	(*d)[name] = struct{}{}
	return append(list, name)
}

// AddPath adds a path of the current document.
func (d *Deps) AddPath(path string) { d.Paths = d.paths.append(d.Paths, path) }

// Add adds what e reads.
func (d *Deps) Add(e Expr) {
	switch n := e.(type) {
	case *fieldPath:
		d.addPath(n)
	case *meta:
		d.Meta = appendNew(d.Meta, n.kind)
	case *random:
		d.Random = true
	}
	e.walk(func(operand *Expr) { d.Add(*operand) })
}

func (d *Deps) addPath(f *fieldPath) {
	switch {
	case f.slot == slotRoot && len(f.parts) == 0:
		d.Whole = true
	case f.slot == slotRoot:
		d.AddPath(strings.Join(f.parts, "."))
	case f.free:
		d.Vars = appendNew(d.Vars, f.name)
	}
}

func appendNew(s []string, name string) []string {
	if slices.Contains(s, name) {
		return s
	}
	return append(s, name)
}

// Fields returns the top-level fields of the document that e reads, and
// whether it reads the whole document.
func Fields(e Expr) (names []string, whole bool) {
	var d Deps
	d.Add(e)
	return FirstNames(d.Paths), d.Whole
}

// FirstNames returns the first components of paths, each once.
func FirstNames(paths []string) []string {
	fields, seen := []string{}, nameSet(nil)
	for _, path := range paths {
		first, _, _ := strings.Cut(path, ".")
		fields = seen.append(fields, first)
	}
	return fields
}

// Let is a parsed `let`: variables for the expressions of a command or of a
// sub-pipeline.
type Let struct {
	// Names are the variables, in the order that Eval returns their values.
	Names []string
	exprs []Expr
}

// ParseLet parses the `let` of a stage; for a command's see CommandLet.
func ParseLet(d bson.Doc, opts *Options) (*Let, error) {
	l := &Let{}
	for it := d.Iter(); it.Next(); {
		if err := ValidateVarName(it.Key); err != nil {
			return nil, err
		}
		e, err := Parse(it.Value, opts)
		if err != nil {
			return nil, err
		}
		l.Names = append(l.Names, it.Key)
		l.exprs = append(l.exprs, e)
	}
	return l, nil
}

// Eval computes the values of the variables.
func (l *Let) Eval(env *Env) ([]bson.Value, error) {
	vs := make([]bson.Value, len(l.exprs))
	for i, e := range l.exprs {
		v, err := e.Eval(env)
		if err != nil {
			return nil, err
		}
		vs[i] = v.Clone()
	}
	return vs, nil
}

// Exprs returns the variables' expressions, for dependency analysis.
func (l *Let) Exprs() []Expr { return l.exprs }
