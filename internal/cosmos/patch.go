package cosmos

import (
	"math"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/nosql"
	"time"
)

// maxPatches is the service's bound on the operations of one patch.
const maxPatches = 10

// patch is a partial update: operations, and a condition on the item. (Cosmos
// DB: "Partial document update".)
type patch struct {
	condition *nosql.Query // or nil
	steps     []step
}

type step struct {
	op    string
	path  []string
	from  []string // of move
	value bson.Value
}

// parsePatch reads [operations] or {condition, operations}. Errors: 400.
func parsePatch(v bson.Value) (*patch, error) {
	p := &patch{}
	ops := v
	if v.Type == bson.TypeDocument {
		ops = v.Doc().Lookup("operations")
		if c := v.Doc().Lookup("condition"); c.Type == bson.TypeString && c.Str() != "" {
			text := c.Str()
			if !strings.HasPrefix(strings.ToLower(strings.TrimSpace(text)), "select") {
				text = "SELECT VALUE 1 " + text
			}
			q, err := nosql.Parse(text, nil, nil)
			if err != nil {
				return nil, asError(err)
			}
			p.condition = q
		}
	}
	if ops.Type != bson.TypeArray || ops.Doc().IsEmpty() {
		return nil, badRequest("The patch request has no operations.")
	}
	for o := range ops.Doc().Values() {
		if len(p.steps) == maxPatches {
			return nil, badRequest("The number of patch operations can't exceed '%d'.", maxPatches)
		}
		if o.Type != bson.TypeDocument {
			return nil, badRequest("A patch operation is not an object.")
		}
		s, err := parseStep(o.Doc())
		if err != nil {
			return nil, err
		}
		p.steps = append(p.steps, s)
	}
	return p, nil
}

func parseStep(d bson.Doc) (step, error) {
	op, path := d.Lookup("op"), d.Lookup("path")
	if op.Type != bson.TypeString || path.Type != bson.TypeString {
		return step{}, badRequest("A patch operation has no 'op' or no 'path'.")
	}
	s := step{op: strings.ToLower(op.Str()), value: d.Lookup("value")}
	var err error
	if s.path, err = pointer(path.Str()); err != nil {
		return s, err
	}
	switch s.op {
	case "increment":
		s.op = "incr"
	case "add", "set", "replace", "remove", "incr":
	case "move":
		from := d.Lookup("from")
		if from.Type != bson.TypeString {
			return s, badRequest("A move operation has no 'from'.")
		}
		s.from, err = pointer(from.Str())
		return s, err
	default:
		return s, badRequest("Unsupported patch operation '%s'.", op.Str())
	}
	if s.op == "incr" && !s.value.IsNumber() {
		return s, badRequest("The value of an increment is not a number.")
	}
	if s.value.IsMissing() {
		s.value = bson.Value{Type: bson.TypeNull} // the Go SDK leaves null out
	}
	return s, nil
}

// pointer reads a JSON pointer. Errors: 400.
func pointer(p string) ([]string, error) {
	if !strings.HasPrefix(p, "/") || p == "/" {
		return nil, badRequest("The patch path '%s' is invalid.", p)
	}
	names := strings.Split(p[1:], "/")
	for i, n := range names {
		names[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(n)
	}
	if systemOfItem[names[0]] || names[0] == "id" {
		return nil, badRequest("The system property '%s' cannot be patched.", names[0])
	}
	return names, nil
}

// maxConditionSteps bounds the evaluation of a condition, during which its item is locked:
// it takes a second or two at the most (nosql.Run.Within).
const maxConditionSteps = 1 << 20

// bound gives a run that cannot wait for memory its bounds.
func (r *request) bound(run *nosql.Run) {
	run.Hold(r.held.Hold(nil))
	run.Until(r.interrupted)
}

// apply returns the new body of an item. bound is called with the run of the condition.
// Errors: 412 if the condition does not hold, 400 for a path that does not exist.
func (p *patch) apply(item bson.Doc, seconds int64, bound func(*nosql.Run)) (bson.Doc, error) {
	body := present(item)
	if p.condition != nil {
		holds := false
		run := p.condition.Start(time.Unix(seconds, 0), func(bson.Value) bool { holds = true; return false })
		bound(run)
		run.Within(maxConditionSteps)
		if _, err := run.Add(body); err != nil {
			return nil, err
		}
		if err := run.Finish(); err != nil {
			return nil, err
		}
		if !holds {
			return nil, errMatch
		}
	}
	v := bson.Document(body)
	for _, s := range p.steps {
		var err error
		if v, err = s.apply(v); err != nil {
			return nil, err
		}
	}
	return v.Doc(), nil
}

func (s *step) apply(v bson.Value) (bson.Value, error) {
	if s.op != "move" {
		return change(v, s.path, s.edit)
	}
	moved := at(v, s.from)
	if moved.IsMissing() {
		return v, absent(s.from)
	}
	v, err := change(v, s.from, func(bson.Value, bool) (edited, error) { return edited{remove: true}, nil })
	if err != nil {
		return v, err
	}
	return change(v, s.path, func(bson.Value, bool) (edited, error) { return edited{value: moved}, nil })
}

func at(v bson.Value, path []string) bson.Value {
	for _, name := range path {
		if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
			return bson.Value{}
		}
		v = v.Doc().Lookup(name)
	}
	return v
}

// edited is the edit of a value: remove it, replace it, or insert before it.
type edited struct {
	value          bson.Value
	remove, insert bool
}

// edit decides the edit of the value at the step's path, Missing if there is none.
func (s *step) edit(old bson.Value, inArray bool) (edited, error) {
	switch s.op {
	case "remove", "replace":
		if old.IsMissing() {
			return edited{}, absent(s.path)
		}
		return edited{value: s.value, remove: s.op == "remove"}, nil
	case "incr":
		if old.IsMissing() {
			return edited{value: s.value}, nil
		}
		if !old.IsNumber() {
			return edited{}, badRequest("The value at '/%s' is not a number.", strings.Join(s.path, "/"))
		}
		sum, overflow := bson.Add(old, s.value)
		if overflow || math.IsInf(bson.ToDouble(sum), 0) {
			return edited{}, badRequest("The sum at '/%s' is out of range.", strings.Join(s.path, "/"))
		}
		return edited{value: sum}, nil
	}
	return edited{value: s.value, insert: inArray && s.op == "add"}, nil
}

func absent(path []string) error {
	return badRequest("For Operation: the path '/%s' does not exist in the item.", strings.Join(path, "/"))
}

// change rebuilds v with the value at path edited. Errors: 400.
func change(v bson.Value, path []string, edit func(old bson.Value, inArray bool) (edited, error)) (bson.Value, error) {
	switch v.Type {
	case bson.TypeDocument:
		return changeField(v, path, edit)
	case bson.TypeArray:
		return changeElement(v, path, edit)
	}
	return v, absent(path)
}

func changeField(v bson.Value, path []string, edit func(bson.Value, bool) (edited, error)) (bson.Value, error) {
	e, err := editAt(v.Doc().Lookup(path[0]), path, false, edit)
	if err != nil {
		return v, err
	}
	var b bson.Builder
	seen := false
	for it := v.Doc().Iter(); it.Next(); {
		if it.Key != path[0] {
			b.Value(it.Key, it.Value)
			continue
		}
		seen = true
		if !e.remove {
			b.Value(it.Key, e.value)
		}
	}
	if !seen && !e.remove {
		b.Value(path[0], e.value)
	}
	return bson.Document(b.Finish()), nil
}

func changeElement(v bson.Value, path []string, edit func(bson.Value, bool) (edited, error)) (bson.Value, error) {
	vs := v.Doc().Slice()
	i := len(vs)
	if path[0] != "-" {
		n, err := strconv.Atoi(path[0])
		if err != nil || n < 0 || n > len(vs) {
			return v, absent(path)
		}
		i = n
	}
	old := bson.Value{}
	if i < len(vs) {
		old = vs[i]
	}
	e, err := editAt(old, path, true, edit)
	if err != nil {
		return v, err
	}
	switch {
	case e.remove:
		vs = append(vs[:i:i], vs[i+1:]...)
	case i == len(vs):
		vs = append(vs, e.value)
	case e.insert:
		vs = append(vs[:i:i], append([]bson.Value{e.value}, vs[i:]...)...)
	default:
		vs[i] = e.value
	}
	return bson.Array(vs...), nil
}

// editAt edits old itself at the end of a path, else what is below it.
func editAt(old bson.Value, path []string, inArray bool, edit func(bson.Value, bool) (edited, error)) (edited, error) {
	if len(path) == 1 {
		return edit(old, inArray)
	}
	below, err := change(old, path[1:], edit)
	return edited{value: below}, err
}
