package pipeline

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

const (
	// maxGeoNearPath and maxGeoNearKey bound the components of the paths that
	// $geoNear writes and of the one that it reads; maxFieldPath bounds every path.
	maxGeoNearPath, maxGeoNearKey, maxFieldPath = 199, 180, 200
)

// GeoNear is {$geoNear: …}: documents in the order of their distance from a
// point. The query below delivers them; the stage adds what the query knows of
// the distance. (Manual: aggregation stage $geoNear.)
type GeoNear struct {
	near, min, max expr.Expr // min and max are nil if absent
	distanceField  string    // "" for none
	includeLocs    string    // "" for none
	// Filter is the query option; nil for all documents.
	Filter     *match.Filter
	spherical  bool
	multiplier float64
	// Key is the path of the indexed field, "" for that of the only index.
	Key  string
	arg  bson.Doc
	vars []string // in scope
}

// parseGeoNear parses the stage. Errors: 10065, 5860400 to 5860402 for near,
// 7555701 and 7555702 for distances that depend on the document, 16606, 16607,
// 14, 2, and those of paths.
func parseGeoNear(arg bson.Value, p *parsing) (Stage, error) {
	if arg.Type != bson.TypeDocument && arg.Type != bson.TypeArray {
		return nil, mongoerr.New(10065, "invalid parameter: expected an object ($geoNear)")
	}
	if !arg.Doc().Has("near") {
		return nil, mongoerr.New(5860400, "$geoNear requires a 'near' argument")
	}
	g := &GeoNear{multiplier: 1, arg: arg.Doc(), vars: slices.Clone(p.Expr.Vars)}
	for it := arg.Doc().Iter(); it.Next(); {
		if it.Key == "uniqueDocs" { // deprecated, and ignored
			continue
		}
		option, ok := geoNearOptions[it.Key]
		if !ok {
			return nil, mongoerr.New(mongoerr.BadValue, "Unknown argument to $geoNear: %s", it.Key)
		}
		if err := option(g, it.Value, p); err != nil {
			return nil, err
		}
	}
	return g, nil
}

var geoNearOptions map[string]func(g *GeoNear, v bson.Value, p *parsing) error

func init() {
	geoNearOptions = map[string]func(*GeoNear, bson.Value, *parsing) error{
		"near": (*GeoNear).parseNear,
		"minDistance": func(g *GeoNear, v bson.Value, p *parsing) (err error) {
			g.min, err = p.distance("minDistance", v, 7555701)
			return err
		},
		"maxDistance": func(g *GeoNear, v bson.Value, p *parsing) (err error) {
			g.max, err = p.distance("maxDistance", v, 7555702)
			return err
		},
		"distanceField": (*GeoNear).parseDistanceField, "includeLocs": (*GeoNear).parseIncludeLocs,
		"query": (*GeoNear).parseQuery, "key": (*GeoNear).parseKey,
		"distanceMultiplier": (*GeoNear).parseMultiplier,
		"spherical": func(g *GeoNear, v bson.Value, _ *parsing) error {
			g.spherical = v.Truthy()
			return nil
		},
	}
}

// fixed parses an expression that may read variables, not the document.
func (p *parsing) fixed(v bson.Value, code mongoerr.Code, name string) (expr.Expr, error) {
	e, err := expr.Parse(v, p.Expr)
	if err != nil {
		return nil, err
	}
	var d expr.Deps
	if d.Add(e); len(d.Paths) > 0 || d.Whole || d.Random {
		return nil, mongoerr.New(code, "$geoNear requires a constant %s argument", name)
	}
	return e, nil
}

func (g *GeoNear) parseNear(v bson.Value, p *parsing) (err error) {
	if g.near, err = p.fixed(v, 5860402, "near"); err != nil {
		return err
	}
	if v, ok := expr.Constant(g.near); ok {
		return checkNear(v)
	}
	return nil
}

func checkNear(v bson.Value) error {
	if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
		return mongoerr.New(5860401, "$geoNear requires near argument to be an array or an object, but found %s", v.Type)
	}
	return nil
}

func (p *parsing) distance(name string, v bson.Value, code mongoerr.Code) (expr.Expr, error) {
	e, err := p.fixed(v, code, name)
	if err != nil {
		return nil, err
	}
	if v, ok := expr.Constant(e); ok {
		if err := checkNonNegative(name, v); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func checkNonNegative(name string, v bson.Value) error {
	if !v.IsNumber() {
		return mongoerr.New(mongoerr.TypeMismatch, "%s must be a number, but found %s", name, v.Type)
	}
	if !(bson.ToDouble(v) >= 0) {
		return mongoerr.New(mongoerr.BadValue, "%s must be nonnegative", name)
	}
	return nil
}

func (g *GeoNear) parseDistanceField(v bson.Value, _ *parsing) error {
	if v.Type != bson.TypeString {
		return mongoerr.New(16606, "$geoNear requires that 'distanceField' option is a String")
	}
	g.distanceField = v.Str()
	return checkGeoNearPath(v.Str(), maxGeoNearPath, 5984700)
}

func (g *GeoNear) parseIncludeLocs(v bson.Value, _ *parsing) error {
	if v.Type != bson.TypeString {
		return mongoerr.New(16607, "$geoNear requires that 'includeLocs' option is a String")
	}
	g.includeLocs = v.Str()
	return checkGeoNearPath(v.Str(), maxGeoNearPath, 5984700)
}

func (g *GeoNear) parseKey(v bson.Value, _ *parsing) error {
	if v.Type != bson.TypeString {
		return mongoerr.New(mongoerr.TypeMismatch, "$geoNear parameter 'key' must be of type string but found type: %s", v.Type)
	}
	if v.Str() == "" {
		return mongoerr.New(mongoerr.BadValue, "$geoNear parameter 'key' cannot be the empty string")
	}
	g.Key = v.Str()
	return checkGeoNearPath(v.Str(), maxGeoNearKey, 5729100)
}

// checkGeoNearPath is expr.ValidatePath with a smaller bound, beyond which it
// gives the code.
func checkGeoNearPath(path string, limit int, code mongoerr.Code) error {
	switch n := strings.Count(path, ".") + 1; {
	case n > maxFieldPath:
		return mongoerr.New(mongoerr.Overflow, "FieldPath is too long")
	case n > limit:
		return mongoerr.New(code, "FieldPath is too long")
	}
	return expr.ValidatePath(path)
}

func (g *GeoNear) parseQuery(v bson.Value, p *parsing) (err error) {
	if v.Type != bson.TypeDocument {
		return mongoerr.New(mongoerr.TypeMismatch, "query must be an object, but found %s", v.Type)
	}
	opts := *p.matchOptions()
	opts.Forbid |= match.FeatureNear | match.FeatureJavaScript
	if g.Filter, err = match.Parse(v.Doc(), &opts); err != nil {
		return err
	}
	if match.TextIn(g.Filter.Root()) != nil {
		return mongoerr.New(mongoerr.BadValue, "text and geoNear not allowed in same query")
	}
	return nil
}

func (g *GeoNear) parseMultiplier(v bson.Value, _ *parsing) error {
	g.multiplier = bson.ToDouble(v)
	return checkNonNegative("distanceMultiplier", v)
}

// Name is the stage's name.
func (g *GeoNear) Name() string { return "$geoNear" }

// Serialize is the specification, with the key that was chosen.
func (g *GeoNear) Serialize() bson.Value { return bson.Document(g.arg) }

// At is the specification for another server, with the values that its arguments have in env, and the
// let of the variables that its query reads.
func (g *GeoNear) At(env *expr.Env) (arg, let bson.Doc, err error) {
	var b bson.Builder
	for name, v := range g.arg.All() {
		if e := map[string]expr.Expr{"near": g.near, "minDistance": g.min, "maxDistance": g.max}[name]; e != nil {
			if v, err = e.Eval(env.WithRoot(bson.Empty)); err != nil {
				return nil, nil, err
			}
		}
		b.Value(name, v)
	}
	var values bson.Builder
	if g.Filter != nil {
		read := match.DependsOn(g.Filter.Root()).Vars
		for i, name := range g.vars {
			if slices.Contains(read, name) && !slices.Contains(g.vars[i+1:], name) && !env.Var(i).IsMissing() {
				values.OpenDoc(name).Value("$literal", env.Var(i)).Close()
			}
		}
	}
	return b.Finish(), values.Finish(), nil
}

// deps adds the dependencies of the stage: variables, and the whole document.
func (g *GeoNear) deps(d *expr.Deps) {
	for _, e := range []expr.Expr{g.near, g.min, g.max} {
		if e != nil {
			d.Add(e)
		}
	}
	if g.Filter != nil {
		d.Vars = append(d.Vars, match.DependsOn(g.Filter.Root()).Vars...)
	}
	d.Whole = true
}

// Query is the filter that delivers the documents by an index on the field at
// path.
func (g *GeoNear) Query(path string, env *expr.Env) (*match.Filter, error) {
	near, err := g.near.Eval(env.WithRoot(bson.Empty))
	if err != nil {
		return nil, err
	}
	if err := checkNear(near); err != nil {
		return nil, err
	}
	op := "$near"
	if g.spherical {
		op = "$nearSphere"
	}
	b := new(bson.Builder).Value(op, near)
	for _, d := range []struct {
		name string
		e    expr.Expr
	}{{"minDistance", g.min}, {"maxDistance", g.max}} {
		if d.e == nil {
			continue
		}
		v, err := d.e.Eval(env)
		if err == nil {
			err = checkNonNegative(d.name, v)
		}
		if err != nil {
			return nil, err
		}
		b.Double("$"+d.name, min(math.Abs(bson.ToDouble(v)), math.MaxFloat64))
	}
	node, err := match.NewGeoNear(path, b.Finish())
	if err != nil {
		return nil, err
	}
	nodes := []match.Node{node}
	if g.Filter != nil {
		nodes = append(nodes, g.Filter.Root())
	}
	return match.FilterOf(match.AndOf(nodes...)), nil
}

// Open adds the distance and the place to each document of the query, and keeps
// them as its metadata.
func (g *GeoNear) Open(in Iterator, r *Run) (Iterator, error) {
	known := r.Env.Meta // of the query; from here on set by the run
	r.Env.Meta = r.meta
	distanceField, includeLocs := strings.Split(g.distanceField, "."), strings.Split(g.includeLocs, ".")
	return &located{in, func(d bson.Doc) bson.Doc {
		distance, point := bson.Value{}, bson.Value{}
		if known != nil {
			distance, point = known("geoNearDistance"), known("geoNearPoint")
		}
		distance = bson.Double(bson.ToDouble(distance) * g.multiplier)
		r.Meta = new(bson.Builder).Value("geoNearDistance", distance).Value("geoNearPoint", point).Finish()
		if g.distanceField != "" {
			d = setPath(d, distanceField, distance)
		}
		if g.includeLocs != "" {
			d = setPath(d, includeLocs, point)
		}
		return d
	}}, nil
}

// located runs a function over each document.
type located struct {
	in Iterator
	f  func(bson.Doc) bson.Doc
}

func (l *located) Close() { l.in.Close() }

func (l *located) Next(ctx context.Context) (bson.Doc, error) {
	d, err := l.in.Next(ctx)
	if err != nil || d == nil {
		return nil, err
	}
	return l.f(d), nil
}

// First is the $geoNear that the pipeline begins with, or nil.
func (p *Pipeline) First() *GeoNear {
	if len(p.Stages) == 0 {
		return nil
	}
	g, _ := p.Stages[0].(*GeoNear)
	return g
}

// placeGeoNear requires that $geoNear is first, except for filters that match
// everything, which it drops: error 40603.
func (p *Pipeline) placeGeoNear() error {
	for i, s := range p.Stages {
		if _, ok := s.(*GeoNear); !ok || i == 0 {
			continue
		}
		for _, before := range p.Stages[:i] {
			if m, ok := before.(*Match); !ok || !match.IsTrue(m.Filter.Root()) {
				return mongoerr.New(40603, "$geoNear was not the first stage in the pipeline after optimization. Is optimization disabled or inhibited?")
			}
		}
		p.Stages = p.Stages[i:]
		return p.placeGeoNear()
	}
	return nil
}
