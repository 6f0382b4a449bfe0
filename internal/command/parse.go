package command

import (
	"crypto/sha256"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// place is the parser's position, for messages: "create.timeseries".
type place struct {
	parent *place
	name   string
}

// place returns the position inside the field.
func (d *Field) place(at *place) *place {
	if d.inside != nil && d.inside.parent == at {
		return d.inside
	}
	return &place{at, d.name}
}

func (p *place) path(field string) string {
	parts := []string{field}
	for ; p != nil; p = p.parent {
		parts = append(parts, p.name)
	}
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, ".")
}

// ParseDoc parses a document that is not a command by its declaration: an option
// document, a stage's specification. Error messages begin with f's name.
func ParseDoc(f *Fields, d bson.Doc) (Args, error) {
	return parser{}.document(f, d, &f.root)
}

// Parse parses op's arguments by f. The dispatcher does it for a Command with Fields; a
// Handler whose declaration depends on the request calls it. It sets op.Collection,
// op.UUID and op.NS where f declares the command's value to be a collection.
func Parse(op *Op, f *Fields) (Args, error) {
	p := parser{op: op}
	if op.answer != nil && !op.answer.arguments.lent {
		p.memory = &op.answer.arguments
		p.memory.lent = true
	}
	if err := p.namespace(f); err != nil {
		return Args{}, err
	}
	return p.document(f, op.Body, &f.root)
}

// usualFields is the initial capacity of Args.
const usualFields = 6

// parser reads one document. op is set at the top level of a command, memory if the
// request's memory is available.
type parser struct {
	op     *Op
	memory *argumentMemory
}

// inner is the parser of documents inside.
func (p parser) inner() parser { return parser{memory: p.memory} }

func (p parser) document(f *Fields, d bson.Doc, at *place) (Args, error) {
	a := p.memory.lend(f)
	var seen uint64
	it := d.Iter()
	if p.op != nil && it.Next() && f.valueAt >= 0 {
		seen |= 1 << f.valueAt
		if err := p.field(&a, f.valueAt, it.Value, at); err != nil {
			return a, err
		}
	}
	for it.Next() {
		i, ok := f.index[it.Key]
		if !ok {
			if f.lenient || p.op != nil && IsGeneric(it.Key) {
				continue
			}
			return a, unknownField(at.path(it.Key))
		}
		if seen&(1<<i) != 0 {
			return a, duplicateField(at.path(it.Key))
		}
		seen |= 1 << i
		if err := p.field(&a, i, it.Value, at); err != nil {
			return a, err
		}
	}
	if p.op != nil {
		if err := p.sequences(&a, &seen, at); err != nil {
			return a, err
		}
	}
	for i := range f.fields {
		if d := &f.fields[i]; d.required && a.slots[i] == 0 {
			return a, mongoerr.New(mongoerr.Code(40414), "BSON field '%s' is missing but a required field", at.path(d.name))
		}
	}
	return a, nil
}

func unknownField(path string) error {
	return mongoerr.New(mongoerr.Code(40415), "BSON field '%s' is an unknown field.", path)
}

func duplicateField(path string) error {
	return mongoerr.New(mongoerr.Code(40413), "BSON field '%s' is a duplicate field", path)
}

// field checks v as the i-th field and keeps it.
func (p parser) field(a *Args, i int, v bson.Value, at *place) error {
	d := &a.fields.fields[i]
	if d.unstable && p.op != nil && p.op.Generic.APIStrict {
		return mongoerr.New(mongoerr.APIStrictError, "BSON field '%s' is not allowed with apiStrict:true.", at.path(d.name))
	}
	present, err := d.check(v, at)
	if err != nil || !present {
		return err
	}
	a.keep(i, v)
	switch d.kind {
	case kindStruct:
		s, err := p.inner().document(d.sub, v.Doc(), d.place(at))
		if err != nil {
			return err
		}
		a.spans = append(a.spans, span{i, len(a.subs), len(a.subs) + 1})
		a.subs = append(a.subs, s)
	case kindArray:
		return p.elements(a, i, v, d.place(at))
	}
	return nil
}

// elements checks the elements of an array and parses those that are Structs.
func (p parser) elements(a *Args, i int, v bson.Value, at *place) error {
	d := &a.fields.fields[i]
	from, n := len(a.subs), 0
	element := func(v bson.Value, at *place, name string) error {
		e := *d.elem
		e.name = name
		present, err := e.check(v, at)
		if err != nil {
			return err
		}
		// Null elements are accepted and ignored, as in mongod.
		if !present || e.kind != kindStruct {
			return nil
		}
		s, err := p.inner().document(e.sub, v.Doc(), at)
		a.subs = append(a.subs, s)
		return err
	}
	if v.Type != bson.TypeArray {
		if err := element(v, at.parent, d.name); err != nil {
			return err
		}
	} else {
		for it := v.Doc().Iter(); it.Next(); n++ {
			if it.Key != bson.Index(n) {
				return mongoerr.New(mongoerr.BadValue,
					"BSON array field '%s' has an invalid index field name: '%s', expected '%s'", at.self(), it.Key, bson.Index(n))
			}
			if err := element(it.Value, at, it.Key); err != nil {
				return err
			}
		}
	}
	if d.elem.kind == kindStruct {
		a.spans = append(a.spans, span{i, from, len(a.subs)})
	}
	return nil
}

// self returns the path of the position itself.
func (p *place) self() string { return p.parent.path(p.name) }

// sequences adds the documents from document sequences.
func (p parser) sequences(a *Args, seen *uint64, at *place) error {
	for _, s := range p.op.Sequences {
		i, ok := a.fields.index[s.ID]
		if !ok {
			if a.fields.lenient {
				continue
			}
			return unknownField(at.path(s.ID))
		}
		if *seen&(1<<i) != 0 {
			return duplicateField(at.path(s.ID))
		}
		*seen |= 1 << i
		d := &a.fields.fields[i]
		// The field is present; its documents are read with Op.Documents.
		a.keep(i, bson.ArrayOf(bson.Empty))
		if d.kind != kindArray || d.elem.kind != kindStruct {
			continue
		}
		from := len(a.subs)
		in := d.place(at)
		if p.memory != nil && len(a.spans) == 0 {
			a.subs, a.spans = p.memory.subs, p.memory.spans
		}
		for _, doc := range s.Docs {
			s, err := p.inner().document(d.elem.sub, doc, in)
			if err != nil {
				return err
			}
			a.subs = append(a.subs, s)
		}
		a.spans = append(a.spans, span{i, from, len(a.subs)})
		if p.memory != nil {
			p.memory.subs, p.memory.spans = a.subs, a.spans
		}
	}
	return nil
}

// check reports whether v counts as present, and checks that it is valid for d.
func (d *Field) check(v bson.Value, at *place) (present bool, err error) {
	switch d.kind {
	case kindAny:
		return true, nil
	case kindIgnored:
		return false, nil
	}
	if !d.accepts(v.Type) {
		if d.typeErr != nil {
			return false, d.typeErr
		}
		if d.optional {
			return false, mongoerr.New(mongoerr.TypeMismatch, "Field '%s' should be a boolean value, but found: %s", d.name, v.Type)
		}
		if !d.notNull && (v.Type == bson.TypeNull || v.Type == bson.TypeUndefined) {
			return d.keepNull, nil
		}
		return false, typeError(d, v, at)
	}
	switch d.kind {
	case kindEnum:
		return true, d.checkEnum(v.Str(), at)
	case kindUUID:
		if _, ok := uuidOf(v); !ok {
			return false, uuidError(d, v, at)
		}
	case kindDigest:
		if err := d.checkDigest(v, at); err != nil {
			return false, err
		}
	case kindExact:
		if _, ok := bson.ExactInt64(v); !ok {
			return false, notInteger(d.name, v)
		}
	}
	if (d.hasMin || d.hasMax) && v.IsNumber() {
		return true, d.checkRange(v, at)
	}
	return true, nil
}

func notInteger(name string, v bson.Value) error {
	return mongoerr.New(mongoerr.FailedToParse, "Expected an integer: %s: %s", name, v)
}

func (d *Field) accepts(t bson.Type) bool {
	for _, want := range d.types {
		if want == t {
			return true
		}
	}
	return false
}

// typeError returns code 14. In mongod's message a list of several types ends in a
// quote instead of a bracket, and so it does here.
func typeError(d *Field, v bson.Value, at *place) error {
	if len(d.types) == 1 {
		return mongoerr.New(mongoerr.TypeMismatch, "BSON field '%s' is the wrong type '%s', expected type '%s'",
			at.path(d.name), v.Type, d.types[0])
	}
	names := make([]string, len(d.types))
	for i, t := range d.types {
		names[i] = t.String()
	}
	return mongoerr.New(mongoerr.TypeMismatch, "BSON field '%s' is the wrong type '%s', expected types '[%s']",
		at.path(d.name), v.Type, strings.Join(names, ", "))
}

var binaryNames = map[byte]string{
	0: "general", 1: "function", 2: "byte array", 3: "UUID (deprecated)", 4: "UUID", 5: "MD5",
	6: "encrypt", 7: "column", 8: "sensitive", 9: "vector", 128: "Custom",
}

func uuidError(d *Field, v bson.Value, at *place) error {
	sub, content := v.Binary()
	if sub == 4 {
		return mongoerr.New(mongoerr.InvalidUUID, "uuid must be a 16-byte binary field with UUID (4) subtype, got %d bytes", len(content))
	}
	return binaryError(d, sub, at, "UUID")
}

func binaryError(d *Field, sub byte, at *place, want string) error {
	name, ok := binaryNames[sub]
	if !ok {
		name = "unknown"
	}
	return mongoerr.New(mongoerr.TypeMismatch, "BSON field '%s' is the wrong binData type '%s', expected type '%s'",
		at.path(d.name), name, want)
}

func (d *Field) checkDigest(v bson.Value, at *place) error {
	sub, content := v.Binary()
	if sub != 0 {
		return binaryError(d, sub, at, binaryNames[0])
	}
	if len(content) != sha256.Size {
		return mongoerr.New(mongoerr.UnsupportedFormat, "Unsupported SHA256Block hash length: %d", len(content))
	}
	return nil
}

func (d *Field) checkEnum(s string, at *place) error {
	for _, want := range d.enum {
		if s == want {
			return nil
		}
	}
	return mongoerr.New(mongoerr.BadValue, "Enumeration value '%s' for field '%s' is not a valid value.", s, at.path(d.name))
}

func (d *Field) checkRange(v bson.Value, at *place) error {
	n := bson.ClampToInt64(v)
	if d.kind == kindInt32 {
		n = int64(clamp32(n))
	}
	var op string
	bound := d.min
	switch {
	case d.hasMin && d.above && n <= d.min:
		op = ">"
	case d.hasMin && !d.above && n < d.min:
		op = ">="
	case d.hasMax && n > d.max:
		op, bound = "<=", d.max
	default:
		return nil
	}
	code := mongoerr.BadValue
	if d.rangeCode != 0 {
		code = mongoerr.Code(d.rangeCode)
	}
	return mongoerr.New(code, "BSON field '%s' value must be %s %d, actual value '%d'", at.path(d.name), op, bound, n)
}

// namespace reads the command's own value if that names a collection.
func (p parser) namespace(f *Fields) error {
	if f.value != kindNamespace && f.value != kindNamespaceOrUUID {
		return nil
	}
	_, v := p.op.Body.First()
	id, isUUID := uuidOf(v)
	switch {
	case !isUUID:
		return p.collection(v)
	case f.value == kindNamespace:
		return mongoerr.New(mongoerr.InvalidNamespace, "Collection name must be provided. UUID is not valid in this context")
	}
	p.op.UUID, p.op.HasUUID = id, true
	return nil
}

func (p parser) collection(v bson.Value) error {
	if v.Type != bson.TypeString && v.Type != bson.TypeSymbol {
		return mongoerr.New(mongoerr.InvalidNamespace, "collection name has invalid type %s", v.Type)
	}
	p.op.Collection = v.Str()
	p.op.NS = p.op.Client.namespaceOf(p.op.DB, p.op.Collection)
	if !ValidCollectionName(p.op.Collection) {
		return mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s'", p.op.NS)
	}
	return nil
}

// ValidCollectionName reports whether name may be the name of a collection: not empty, no
// leading dot, no null bytes and no dollar signs.
func ValidCollectionName(name string) bool {
	if name == "" || name[0] == '.' || strings.HasPrefix(name, "$cmd.") {
		return strings.HasPrefix(name, "$cmd.")
	}
	return !strings.ContainsAny(name, "\x00$")
}

// maxDatabaseName is the longest name of a database, in bytes.
const maxDatabaseName = 63

// ValidDatabaseName reports whether name may name a database.
func ValidDatabaseName(name string) bool {
	if name == "$external" {
		return true
	}
	return name != "" && len(name) <= maxDatabaseName && !strings.ContainsAny(name, "/\\. \"$\x00")
}
