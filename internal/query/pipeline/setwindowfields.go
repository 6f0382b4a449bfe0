package pipeline

import (
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/project"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

// windowVar is the variable that passes the outputs of a row to the projection that
// adds them to the document.
const windowVar = "setWindowFieldsOutputs"

// SetWindowFields is {$setWindowFields: {partitionBy, sortBy, output}}.
type SetWindowFields struct {
	By      expr.Expr // partitionBy, or nil
	Sort    sortkey.Pattern
	Outputs []WindowOutput

	order expr.WindowOrder
	into  *project.Projection // nil without outputs
	slot  int                 // of windowVar
}

// WindowOutput is one field of output.
type WindowOutput struct {
	Path   string
	Bounds Bounds
	// Spec is the function, where it is an accumulator; otherwise one of Shift
	// and Fill is set.
	Spec  *expr.WindowSpec
	Shift *windowShift
	Fill  *windowFill
}

func parseSetWindowFields(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.FailedToParse, "the %s stage specification must be an object, found %s", p.name, arg.Type)
	}
	s := &SetWindowFields{}
	var by, sortBy, output bson.Value
	for it := arg.Doc().Iter(); it.Next(); {
		switch it.Key {
		case "partitionBy":
			by = it.Value
		case "sortBy":
			sortBy = it.Value
		case "output":
			output = it.Value
		default:
			return nil, mongoerr.New(40415, "BSON field '%s.%s' is an unknown field.", p.name, it.Key)
		}
	}
	if output.IsMissing() {
		return nil, mongoerr.New(mongoerr.IDLFailedToParse, "BSON field '%s.output' is missing but a required field", p.name)
	}
	if output.Type != bson.TypeDocument {
		return nil, wrongWindowType(p.name, "output", output)
	}
	if err := s.parseSort(sortBy, p); err != nil {
		return nil, err
	}
	constant, err := s.parseBy(by, p)
	if err != nil {
		return nil, err
	}
	paths := outputPaths{map[string]bool{}, map[string]bool{}}
	for it := output.Doc().Iter(); it.Next(); {
		if err := paths.add(it.Key); err != nil {
			return nil, err
		}
		o, err := parseWindowOutput(it.Key, it.Value, s.order, p)
		if err != nil {
			return nil, err
		}
		s.Outputs = append(s.Outputs, o)
	}
	if err := partitionable(constant); err != nil {
		return nil, err
	}
	return s, s.prepare(p)
}

// outputPaths are the paths of outputs, and their parents.
type outputPaths struct{ named, around map[string]bool }

// add rejects a path that equals another one, or contains it or is contained in it.
func (o *outputPaths) add(path string) error {
	if o.named[path] || o.around[path] {
		return errWindowPaths
	}
	o.named[path] = true
	for i, parts := 0, 1; i < len(path) && parts < maxPathParts; i++ {
		if path[i] != '.' {
			continue
		}
		parts++
		if o.named[path[:i]] {
			return errWindowPaths
		}
		o.around[path[:i]] = true
	}
	return nil
}

var errWindowPaths = mongoerr.New(6307900, "$setWindowFields 'output' specification contains two conflicting paths")

func wrongWindowType(stage, field string, v bson.Value) error {
	return mongoerr.New(mongoerr.TypeMismatch, "BSON field '%s.%s' is the wrong type '%s', expected type 'object'", stage, field, v.Type)
}

func (s *SetWindowFields) parseSort(v bson.Value, p *parsing) (err error) {
	if v.IsNullish() {
		return nil
	}
	if v.Type != bson.TypeDocument {
		return wrongWindowType(p.name, "sortBy", v)
	}
	if s.Sort, err = sortkey.Parse(v.Doc()); err != nil {
		return err
	}
	s.order.Spec = v.Doc()
	if len(s.Sort.Parts) == 1 {
		s.order.Path = s.Sort.Parts[0].Path
	}
	return nil
}

// parseBy reads the expression to partition by. A constant one makes no partitions; its
// value is returned.
func (s *SetWindowFields) parseBy(v bson.Value, p *parsing) (bson.Value, error) {
	if v.IsMissing() {
		return bson.Value{}, nil
	}
	by, err := expr.Parse(v, p.reducing())
	if err != nil {
		return bson.Value{}, err
	}
	v, constant := expr.Constant(by)
	if !constant {
		s.By = by
	}
	return v, nil
}

// prepare makes the projection that adds the outputs to a document, like $addFields.
func (s *SetWindowFields) prepare(p *parsing) (err error) {
	if len(s.Outputs) == 0 {
		return nil
	}
	opts := expr.Options{}
	if p.Expr != nil {
		opts = *p.Expr
	}
	s.slot = len(opts.Vars)
	opts.Vars = append(opts.Vars[:s.slot:s.slot], windowVar)
	b := new(bson.Builder)
	for i, o := range s.Outputs {
		b.String(o.Path, "$$"+windowVar+"."+strconv.Itoa(i))
	}
	s.into, err = project.ParseStage("$addFields", bson.Document(b.Finish()), &project.Options{Expr: &opts, Match: p.Match})
	return err
}

// parseWindowOutput parses one field of output, {$function: argument, window:
// {…}}.
func parseWindowOutput(path string, v bson.Value, order expr.WindowOrder, p *parsing) (WindowOutput, error) {
	o := WindowOutput{Path: path}
	if v.Type != bson.TypeDocument {
		return o, mongoerr.New(mongoerr.FailedToParse, "The field '%s' must be an object", path)
	}
	if _, err := splitPath(path); err != nil {
		return o, err
	}
	for it := v.Doc().Iter(); it.Next(); {
		if len(it.Key) == 0 || it.Key[0] != '$' {
			continue
		}
		err := o.parseFunction(it.Key, it.Value, v.Doc(), order, p)
		return o, err
	}
	if first, _ := v.Doc().First(); first != "" {
		return o, mongoerr.New(mongoerr.FailedToParse, "Expected a $-prefixed window function, %s", first)
	}
	return o, mongoerr.New(mongoerr.FailedToParse, "Expected a $-prefixed window function")
}

func (o *WindowOutput) parseFunction(name string, arg bson.Value, spec bson.Doc, order expr.WindowOrder, p *parsing) (err error) {
	switch {
	case name == "$shift" || name == "$linearFill":
		if spec.Len() != 1 {
			return mongoerr.New(mongoerr.FailedToParse, "%s does not accept a 'window' field or other arguments", name)
		}
		if name == "$shift" {
			o.Shift, err = parseShift(arg, order, p)
		} else {
			o.Fill, err = parseLinearFill(arg, order, p)
		}
		return err
	case !expr.IsWindowFunction(name):
		return mongoerr.New(mongoerr.FailedToParse, "Unrecognized window function, %s", name)
	case spec.Len() != 1 && (name == "$rank" || name == "$denseRank" || name == "$documentNumber"):
		return mongoerr.New(5371601, "Rank style window functions take no other arguments")
	}
	window, err := windowArgument(name, spec)
	if err != nil {
		return err
	}
	if o.Spec, err = expr.ParseWindow(name, arg, order, p.Expr); err != nil {
		return err
	}
	switch {
	case o.Spec.Frame == expr.FrameRunning && !window.IsMissing():
		return mongoerr.New(mongoerr.FailedToParse, "'window' field is not allowed in %s", name)
	case o.Spec.Frame == expr.FrameRunning:
		o.Bounds = runningBounds
		return nil
	case window.IsMissing() && o.Spec.Frame == expr.FrameRequired:
		return mongoerr.New(mongoerr.FailedToParse, "%s requires explicit window bounds", name)
	case window.IsMissing():
		o.Bounds = wholeBounds
		return nil
	}
	o.Bounds, err = parseBounds(window, order, p)
	return err
}

// windowArgument returns the argument `window` and rejects other fields next to the
// function.
func windowArgument(name string, spec bson.Doc) (window bson.Value, err error) {
	for it := spec.Iter(); it.Next(); {
		switch {
		case it.Key == name:
		case it.Key == "window":
			if it.Value.Type != bson.TypeDocument {
				return window, mongoerr.New(mongoerr.FailedToParse, "'window' field must be an object")
			}
			window = it.Value
		case len(it.Key) > 0 && it.Key[0] == '$':
			return window, mongoerr.New(mongoerr.FailedToParse, "Cannot specify two functions in window function spec, found: %s", it.Key)
		default:
			return window, mongoerr.New(mongoerr.FailedToParse, "Window function found an unknown argument: %s", it.Key)
		}
	}
	return window, nil
}

// deps adds the paths that the expressions read. The documents are passed on whole.
func (s *SetWindowFields) deps(d *expr.Deps) {
	add := func(list ...expr.Expr) {
		for _, e := range list {
			if e != nil {
				d.Add(e)
			}
		}
	}
	add(s.By)
	for _, o := range s.Outputs {
		switch {
		case o.Shift != nil:
			add(o.Shift.output)
		case o.Fill != nil:
			add(o.Fill.input, o.Fill.at)
		default:
			add(o.Spec.Exprs()...)
		}
	}
	d.Whole = true
}

// Name is the stage's name.
func (s *SetWindowFields) Name() string { return "$_internalSetWindowFields" }

// Sorting is the sort that the server puts in front of the stage: by the
// partition and then as the stage sorts. Nil without one, and where an
// expression that is no path makes the partitions.
func (s *SetWindowFields) Sorting() bson.Doc {
	b := new(bson.Builder)
	if s.By != nil {
		v := expr.Serialize(s.By)
		if v.Type != bson.TypeString {
			return nil
		}
		b.Int32(strings.TrimPrefix(v.Str(), "$"), 1)
	}
	by := b.Fields(s.order.Spec).Finish()
	if by.IsEmpty() {
		return nil
	}
	return new(bson.Builder).OpenDoc("$sort").Doc("sortKey", by).Close().Finish()
}

// Serialize is the specification, with the default windows written out.
func (s *SetWindowFields) Serialize() bson.Value {
	b := new(bson.Builder)
	if s.By != nil {
		b.Value("partitionBy", expr.Serialize(s.By))
	}
	if s.order.Spec != nil {
		b.Doc("sortBy", s.order.Spec)
	}
	b.OpenDoc("output")
	for _, o := range s.Outputs {
		b.OpenDoc(o.Path)
		switch {
		case o.Shift != nil:
			b.Doc("$shift", o.Shift.serialize())
		case o.Fill != nil:
			b.Value("$linearFill", expr.Serialize(o.Fill.input))
		default:
			b.Value(o.Spec.Name, o.Spec.Serialize())
			if o.Spec.Frame != expr.FrameRunning {
				b.Doc("window", o.Bounds.serialize())
			}
		}
		b.Close()
	}
	return bson.Document(b.Close().Finish())
}
