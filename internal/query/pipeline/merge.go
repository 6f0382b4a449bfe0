package pipeline

import (
	"context"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
)

// Merge is {$merge: {into, on, let, whenMatched, whenNotMatched}}.
type Merge struct {
	Into Namespace
	On   []string // dotted paths
	// Nullable says that the unique index on On holds documents without a value.
	Nullable bool
	// WhenMatched is "replace", "keepExisting", "merge", "fail" or "pipeline".
	WhenMatched string
	// WhenNotMatched is "insert", "discard" or "fail".
	WhenNotMatched string
	// Pipeline is whenMatched's.
	Pipeline bson.Value
	// Let are the variables of Pipeline; nil stands for {new: "$$ROOT"}.
	Let *expr.Let

	let bson.Value
}

// mergeUpdates are the updates of whenMatched's modes; $$new is the incoming document.
var mergeUpdates = map[string]bson.Value{
	"replace":      bson.MustParseValue(`[{$replaceWith: "$$new"}]`),
	"merge":        bson.MustParseValue(`[{$replaceWith: {$mergeObjects: ["$$ROOT", "$$new"]}}]`),
	"keepExisting": bson.MustParseValue(`[{$replaceWith: "$$ROOT"}]`),
}

// Update returns the update, with $$new, of a document that is there: the mode's, or
// whenMatched's own pipeline.
func (m *Merge) Update() bson.Value {
	if u, ok := mergeUpdates[m.WhenMatched]; ok {
		return u
	}
	return m.Pipeline
}

// adds reports whether the mode adds the fields of the incoming document one by one.
func (m *Merge) adds() bool { return m.WhenMatched == "merge" || m.WhenMatched == "keepExisting" }

// Ordered is d with its fields in the order in which the mode adds them: by name, _id first. In
// modes that add none it is d.
func (m *Merge) Ordered(d bson.Doc) bson.Doc {
	if !m.adds() {
		return d
	}
	names := make([]string, 0, d.Len())
	for it := d.Iter(); it.Next(); {
		if it.Key != "_id" {
			names = append(names, it.Key)
		}
	}
	slices.Sort(names)
	b := new(bson.Builder).Value("_id", d.Lookup("_id"))
	for _, name := range names {
		b.Value(name, d.Lookup(name))
	}
	return b.Finish()
}

// Completed is the document that is inserted for d: where the mode adds fields, with null for
// those of On that d lacks, as an upsert would have them.
func (m *Merge) Completed(d bson.Doc) bson.Doc {
	if !m.adds() {
		return d
	}
	b := new(bson.Builder).Fields(d)
	for _, path := range m.On {
		if path != "_id" && !strings.Contains(path, ".") && !d.Has(path) {
			b.Null(path)
		}
	}
	return b.Finish()
}

// MergeBatch keeps the first failure of a $merge while it writes the documents that MongoDB would
// have sent in the same unordered batch.
type MergeBatch struct {
	failed error
	after  int // documents since
	size   int // of the documents of a batch so far, in bytes
}

const (
	// maxAfterFailure is how many documents a $merge still writes after a failure.
	maxAfterFailure = 1000
	// maxMergeBatch is how large MongoDB lets such a batch become, in bytes.
	maxMergeBatch = 16 << 20
)

// Begin notes that d is written next. It reports whether the $merge ends before that, by its
// failure.
func (b *MergeBatch) Begin(d bson.Doc) (ends bool) {
	next := b.size+len(d) > maxMergeBatch
	if next {
		b.size = 0
	}
	b.size += len(d)
	if b.failed == nil {
		return false
	}
	b.after++
	return next || b.after > maxAfterFailure
}

// Fail notes that a write failed.
func (b *MergeBatch) Fail(err error) {
	if b.failed == nil {
		b.failed = err
	}
}

// Err is the first failure, nil for none.
func (b *MergeBatch) Err() error { return b.failed }

func parseMerge(arg bson.Value, p *parsing) (Stage, error) {
	m := &Merge{On: []string{"_id"}, WhenMatched: "merge", WhenNotMatched: "insert"}
	switch arg.Type {
	case bson.TypeString:
		m.Into = Namespace{p.DB, arg.Str()}
		if arg.Str() == "" {
			return nil, mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s.'", p.DB)
		}
	case bson.TypeDocument:
		if err := m.parse(arg.Doc(), p); err != nil {
			return nil, err
		}
	default:
		return nil, mongoerr.New(mongoerr.TypeMismatch, "$merge requires a string or object argument, but found %s", arg.Type)
	}
	if err := checkTarget(m.Into); err != nil {
		return nil, err
	}
	if strings.HasPrefix(m.Into.Coll, "system.") {
		return nil, mongoerr.New(31319, "Cannot $merge to special collection: %s", m.Into.Coll)
	}
	if m.Into.DB == "admin" || m.Into.DB == "config" || m.Into.DB == "local" {
		return nil, mongoerr.New(31320, "Cannot $merge to internal database: %s", m.Into.DB)
	}
	if p.Namespaces == nil {
		return m, nil
	}
	var err error
	m.Nullable, err = p.Namespaces.MergeTarget(m.Into, m.On)
	return m, err
}

// checkTarget checks that a namespace may be written to.
func checkTarget(ns Namespace) error {
	if ns.DB == "" || strings.ContainsAny(ns.DB, "/\\. \"\x00$") || ns.Coll == "" || ns.Coll[0] == '.' || strings.IndexByte(ns.Coll, 0) >= 0 {
		return mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s'", ns)
	}
	return nil
}

func (m *Merge) parse(d bson.Doc, p *parsing) error {
	v, err := readSpec("$merge", d, anyField("into").must(), anyField("on"), docField("let"), anyField("whenMatched"),
		stringField("whenNotMatched"), anyField("allowMergeOnNullishValues"))
	if err != nil {
		return err
	}
	if err := m.parseInto(v[0], p); err != nil {
		return err
	}
	if !v[1].IsMissing() {
		if err := m.parseOn(v[1]); err != nil {
			return err
		}
	}
	if err := m.parseModes(v[3], v[4]); err != nil {
		return err
	}
	if v[2].IsMissing() {
		return nil
	}
	if m.WhenMatched != "pipeline" {
		return mongoerr.New(51199, "Cannot use 'let' variables with 'whenMatched: %s' mode", m.WhenMatched)
	}
	if n := v[2].Doc().Lookup("new"); !n.IsMissing() && (n.Type != bson.TypeString || n.Str() != "$$ROOT") {
		return mongoerr.New(51273, "'let' may not define a value for the reserved 'new' variable other than '$$ROOT'")
	}
	spec := v[2].Doc()
	if !spec.Has("new") {
		spec = new(bson.Builder).String("new", "$$ROOT").Fields(spec).Finish()
	}
	m.let = v[2]
	m.Let, err = expr.ParseLet(spec, p.Expr)
	return err
}

func (m *Merge) parseInto(v bson.Value, p *parsing) error {
	switch v.Type {
	case bson.TypeString:
		if v.Str() == "" {
			return mongoerr.New(5786800, "$merge 'into' field cannot be an empty string")
		}
		m.Into = Namespace{p.DB, v.Str()}
		return nil
	case bson.TypeDocument:
		f, err := readSpec("into", v.Doc(), stringField("db"), stringField("coll"))
		if err != nil {
			return err
		}
		if f[1].IsMissing() {
			return mongoerr.New(5786801, "$merge 'into' field must specify a 'coll' that is not empty, null or undefined")
		}
		m.Into = Namespace{p.DB, f[1].Str()}
		if str(f[0]) != "" {
			m.Into.DB = f[0].Str()
		}
		return nil
	}
	return mongoerr.New(51178, "$merge 'into' field  must be either a string or an object, but found %s", v.Type)
}

func (m *Merge) parseOn(v bson.Value) error {
	list := []bson.Value{v}
	switch v.Type {
	case bson.TypeString:
	case bson.TypeArray:
		if list = v.Doc().Slice(); len(list) == 0 {
			return mongoerr.New(51187, "If explicitly specifying $merge 'on', must include at least one field")
		}
	default:
		return mongoerr.New(51186, "$merge 'on' field  must be either a string or an array of strings, but found %s", v.Type)
	}
	m.On = nil
	for _, e := range list {
		if e.Type != bson.TypeString {
			return mongoerr.New(51134, "$merge 'on' array elements must be strings, but found %s", e.Type)
		}
	}
	for _, e := range list {
		if err := expr.ValidatePath(e.Str()); err != nil {
			return err
		}
		if slices.Contains(m.On, e.Str()) {
			return mongoerr.New(31465, "Found a duplicate field '%s'", e.Str())
		}
		m.On = append(m.On, e.Str())
	}
	return nil
}

func (m *Merge) parseModes(matched, notMatched bson.Value) error {
	switch matched.Type {
	case bson.Missing:
	case bson.TypeString:
		m.WhenMatched = matched.Str()
		if !slices.Contains([]string{"replace", "keepExisting", "merge", "fail"}, m.WhenMatched) {
			return mongoerr.New(mongoerr.BadValue, "Enumeration value '%s' for field 'whenMatched' is not a valid value.", m.WhenMatched)
		}
	case bson.TypeArray:
		for e := range matched.Doc().Values() {
			if e.Type != bson.TypeDocument {
				return mongoerr.New(mongoerr.TypeMismatch, "Each element of the 'pipeline' array must be an object")
			}
		}
		m.WhenMatched, m.Pipeline = "pipeline", matched
	default:
		return mongoerr.New(51191, "$merge 'whenMatched' field  must be either a string or an array, but found %s", matched.Type)
	}
	if !notMatched.IsMissing() {
		m.WhenNotMatched = notMatched.Str()
		if !slices.Contains([]string{"insert", "discard", "fail"}, m.WhenNotMatched) {
			return mongoerr.New(mongoerr.BadValue, "Enumeration value '%s' for field '$merge.whenNotMatched' is not a valid value.", m.WhenNotMatched)
		}
	}
	if (m.WhenMatched == "keepExisting" || m.WhenMatched == "fail") && m.WhenNotMatched != "insert" {
		return mongoerr.New(51181, "Combination of $merge modes 'whenMatched: %s' and 'whenNotMatched: %s' is not supported", m.WhenMatched, m.WhenNotMatched)
	}
	return nil
}

// Name is the stage's name.
func (m *Merge) Name() string { return "$merge" }

// Serialize is the specification in full.
func (m *Merge) Serialize() bson.Value {
	b := new(bson.Builder).OpenDoc("into").String("db", m.Into.DB).String("coll", m.Into.Coll).Close()
	if len(m.On) == 1 {
		b.String("on", m.On[0])
	} else {
		b.Strings("on", m.On...)
	}
	if m.WhenMatched == "pipeline" {
		b.Value("let", m.let).Value("whenMatched", m.Pipeline)
	} else {
		b.String("whenMatched", m.WhenMatched)
	}
	return bson.Document(b.String("whenNotMatched", m.WhenNotMatched).Finish())
}

// Open writes all documents before it delivers none.
func (m *Merge) Open(in Iterator, r *Run) (Iterator, error) {
	return &writing{in: in, r: r, open: func(ctx context.Context) (Target, error) { return r.World.Merge(ctx, m, r) }}, nil
}

// writing passes documents to a Target, which it opens before it reads the first one.
type writing struct {
	in   Iterator
	r    *Run
	open func(context.Context) (Target, error)
	done bool
}

func (w *writing) Close() { w.in.Close() }

func (w *writing) Next(ctx context.Context) (bson.Doc, error) {
	if w.done {
		return nil, nil
	}
	w.done = true
	t, err := w.open(ctx)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	for {
		d, err := w.in.Next(ctx)
		if err != nil {
			return nil, err
		}
		if d == nil {
			return nil, t.Finish(ctx)
		}
		if err := w.r.check(ctx); err != nil {
			return nil, err
		}
		if err := t.Add(ctx, d); err != nil {
			return nil, err
		}
	}
}
