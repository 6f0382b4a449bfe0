package schema

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Expiry are the settings of expiry for a collection, or for one of its rules:
// the content of storageEngine.mayfly.expiry in `create`, createIndexes and
// collMod, and in their stored forms.
//
//	{visibility: "immediate" | "deferred",
//	 paused: bool,
//	 exact: bool,
//	 relayout: "on" | "off",
//	 by: "date" | "lastWrite",
//	 budget: {documentsPerSecond: long, bytesPerSecond: long},
//	 window: {from: "HH:MM", to: "HH:MM", timeZone: "Europe/Rome"},
//	 archive: {to: "s3://bucket/prefix", fields: ["user"], expireAfterSeconds: long}}
//
// The zero Expiry is MongoDB's behaviour: documents are visible until they are
// removed, at any hour, as fast as possible.
type Expiry struct {
	// Visibility is "" if it is not said.
	Visibility Visibility
	// Paused suspends the rules: nothing expires by them.
	Paused bool
	// Exact lets each measurement of a time-series collection go when its own
	// time has come, and not with its bucket.
	Exact bool
	// Relayout reports whether the layout of a filled collection may be changed for its
	// rules: "" and "on" that it may. Only a collection has it.
	Relayout string
	// By is what a rule counts from, as its index says: "" and "date" are the
	// date in the field. It stays what it is.
	By     string
	Budget Budget
	Window *TimeWindow // when removal may run; nil: always
	// Archive is where what goes is written before; nil for nowhere. Only an index has it.
	Archive *Archive
}

// Visibility reports whether documents are seen after their time has come.
type Visibility string

// The two ways to see what is expired.
const (
	Immediate Visibility = "immediate" // not at all
	Deferred  Visibility = "deferred"  // until the document is removed
)

// The values of Expiry.Relayout.
const (
	RelayoutOn  = "on"
	RelayoutOff = "off"
)

// Budget bounds removal; 0 is no bound.
type Budget struct {
	DocumentsPerSecond, BytesPerSecond int64
}

// Over returns the settings of a rule, e, completed by those of its collection. A rule
// is paused by either.
func (e Expiry) Over(collection *Expiry) Expiry {
	if e.Visibility == "" {
		e.Visibility = collection.Visibility
	}
	if e.Window == nil {
		e.Window = collection.Window
	}
	e.Paused = e.Paused || collection.Paused
	e.Exact = e.Exact || collection.Exact
	return e
}

// expiryPath is the path of the settings in a command.
const expiryPath = "storageEngine.mayfly.expiry"

// ExpiryOf reads the settings out of a storageEngine option, which may be nil.
// dryRun asks what a command would do instead of doing it; it is no setting.
// Errors: 14 and 2 for values, 40415 for fields that do not exist.
func ExpiryOf(storageEngine bson.Doc) (e Expiry, dryRun bool, err error) {
	v := document(storageEngine.Lookup("mayfly")).Lookup("expiry")
	if v.IsMissing() {
		return e, false, nil
	}
	if v.Type != bson.TypeDocument {
		return e, false, notA(expiryPath, v, "object")
	}
	for name, v := range v.Doc().All() {
		path := expiryPath + "." + name
		switch name {
		case "visibility":
			e.Visibility, err = parseVisibility(path, v)
		case "paused":
			e.Paused, err = parseFlag(path, v)
		case "exact":
			e.Exact, err = parseFlag(path, v)
		case "dryRun":
			dryRun, err = parseFlag(path, v)
		case "relayout":
			e.Relayout, err = parseRelayout(path, v)
		case "by":
			e.By, err = parseBy(path, v)
		case "budget":
			e.Budget, err = parseBudget(path, v)
		case "window":
			e.Window, err = parseWindow(path, v)
		case "archive":
			e.Archive, err = parseArchive(path, v)
		default:
			err = unknownField(path)
		}
		if err != nil {
			return e, false, err
		}
	}
	return e, dryRun, nil
}

func unknownField(path string) error {
	return mongoerr.New(mongoerr.Code(40415), "BSON field '%s' is an unknown field.", path)
}

// notA returns the error for a value of a wrong type.
func notA(path string, v bson.Value, wanted string) error {
	return mongoerr.New(mongoerr.TypeMismatch, "BSON field '%s' is the wrong type '%s', expected type '%s'", path, v.Type, wanted)
}

func parseFlag(path string, v bson.Value) (bool, error) {
	if v.Type != bson.TypeBool {
		return false, notA(path, v, "bool")
	}
	return v.Bool(), nil
}

func parseVisibility(path string, v bson.Value) (Visibility, error) {
	if v.Type != bson.TypeString {
		return "", notA(path, v, "string")
	}
	s := Visibility(v.Str())
	if s != Immediate && s != Deferred {
		return "", mongoerr.New(mongoerr.BadValue, "Enumeration value '%s' for field '%s' is not a valid value.", s, path)
	}
	return s, nil
}

func parseRelayout(path string, v bson.Value) (string, error) {
	if v.Type != bson.TypeString {
		return "", notA(path, v, "string")
	}
	if s := v.Str(); s != RelayoutOn && s != RelayoutOff {
		return "", mongoerr.New(mongoerr.BadValue, "Enumeration value '%s' for field '%s' is not a valid value.", s, path)
	}
	return v.Str(), nil
}

func parseBy(path string, v bson.Value) (string, error) {
	if v.Type != bson.TypeString {
		return "", notA(path, v, "string")
	}
	if s := v.Str(); s != ByDate.String() && s != ByLastWrite.String() {
		return "", mongoerr.New(mongoerr.BadValue, "Enumeration value '%s' for field '%s' is not a valid value.", s, path)
	}
	return v.Str(), nil
}

func parseBudget(path string, v bson.Value) (b Budget, err error) {
	if v.Type != bson.TypeDocument {
		return b, notA(path, v, "object")
	}
	for name, v := range v.Doc().All() {
		at := path + "." + name
		var n int64
		if n, err = perSecond(at, v); err != nil {
			return b, err
		}
		switch name {
		case "documentsPerSecond":
			b.DocumentsPerSecond = n
		case "bytesPerSecond":
			b.BytesPerSecond = n
		default:
			return b, unknownField(at)
		}
	}
	return b, nil
}

// perSecond reads a rate or a number of seconds, a whole number of at least 1.
func perSecond(path string, v bson.Value) (int64, error) {
	if !v.IsNumber() {
		return 0, mongoerr.New(mongoerr.TypeMismatch,
			"BSON field '%s' is the wrong type '%s', expected types '[long, int, decimal, double]'", path, v.Type)
	}
	n, whole := bson.ExactInt64(v)
	if !whole {
		return 0, mongoerr.New(mongoerr.BadValue, "BSON field '%s' must be a whole number, actual value '%s'", path, v)
	}
	if n < 1 {
		return 0, mongoerr.New(mongoerr.BadValue, "BSON field '%s' value must be >= 1, actual value '%d'", path, n)
	}
	return n, nil
}

// ChangeExpiry applies the settings of a collMod to those in a stored storageEngine
// option: each field replaces the stored one, and null removes it; the fields of budget
// and window likewise, one by one. It returns the whole storageEngine option, nil where
// nothing is left of it. Errors: those of ExpiryOf, and 72 for other engine options,
// which cannot be changed.
func ChangeExpiry(stored, change bson.Doc) (changed bson.Doc, err error) {
	for engine, v := range change.All() {
		if engine != "mayfly" || v.Type != bson.TypeDocument {
			return nil, invalidOptions("collMod can only change 'storageEngine.mayfly.expiry'")
		}
		for option, v := range v.Doc().All() {
			if option != "expiry" {
				return nil, invalidOptions("'%s' is not a supported option.", option)
			}
			if v.Type != bson.TypeDocument {
				return nil, notA(expiryPath, v, "object")
			}
		}
	}
	fields, were := expirySettings(change), expirySettings(stored)
	if to := fields.Lookup("by"); !to.IsMissing() && kindOf(to) != kindOf(were.Lookup("by")) {
		return nil, invalidOptions("'%s.by' cannot be changed, because the keys of the index depend on it. Drop the index and create it again", expiryPath)
	}
	var b bson.Builder
	b.Reset(nil)
	for name, v := range were.All() {
		if !fields.Has(name) {
			b.Value(name, v)
		}
	}
	for name, v := range fields.All() {
		if nestedFields[name] != nil && v.Type == bson.TypeDocument {
			if v, err = mergeNested(name, document(were.Lookup(name)), v.Doc()); err != nil {
				return nil, err
			}
		}
		if !v.IsNullish() {
			b.Value(name, v)
		} else if !expiryFields[name] {
			return nil, unknownField(expiryPath + "." + name)
		}
	}
	merged := withExpiry(stored, b.Finish())
	if _, _, err := ExpiryOf(merged); err != nil {
		return nil, err
	}
	return WithoutDryRun(merged), nil
}

var expiryFields = map[string]bool{"visibility": true, "paused": true, "exact": true, "relayout": true, "by": true, "budget": true, "window": true, "archive": true, "dryRun": true}

// nestedFields are the settings that are documents.
var nestedFields = map[string]map[string]bool{
	"budget":  {"documentsPerSecond": true, "bytesPerSecond": true},
	"window":  {"from": true, "to": true, "timeZone": true},
	"archive": {"to": true, "fields": true, "expireAfterSeconds": true},
}

// mergeNested returns a setting that is a document after a change of some of
// its fields; Missing if none is left.
func mergeNested(setting string, were, fields bson.Doc) (bson.Value, error) {
	var b bson.Builder
	b.Reset(nil)
	for name, v := range were.All() {
		if !fields.Has(name) {
			b.Value(name, v)
		}
	}
	for name, v := range fields.All() {
		if !v.IsNullish() {
			b.Value(name, v)
		} else if !nestedFields[setting][name] {
			return bson.Value{}, unknownField(expiryPath + "." + setting + "." + name)
		}
	}
	if d := b.Finish(); !d.IsEmpty() {
		return bson.Document(d), nil
	}
	return bson.Value{}, nil
}

// expirySettings returns the settings in a storageEngine option; nil for none.
func expirySettings(storageEngine bson.Doc) bson.Doc {
	return document(document(storageEngine.Lookup("mayfly")).Lookup("expiry"))
}

// kindOf returns the value of the setting `by` where it is set, absent or null.
func kindOf(by bson.Value) string {
	if by.IsNullish() {
		return ByDate.String()
	}
	return text(by)
}

// AsksDryRun reports whether a storageEngine option asks for a dry run.
func AsksDryRun(storageEngine bson.Doc) bool {
	v := expirySettings(storageEngine).Lookup("dryRun")
	return v.Type == bson.TypeBool && v.Bool()
}

// WithoutDryRun is a storageEngine option without the request for a dry run.
func WithoutDryRun(storageEngine bson.Doc) bson.Doc {
	expiry := expirySettings(storageEngine)
	if !expiry.Has("dryRun") {
		return storageEngine
	}
	var b bson.Builder
	b.Reset(nil)
	for name, v := range expiry.All() {
		if name != "dryRun" {
			b.Value(name, v)
		}
	}
	return withExpiry(storageEngine, b.Finish())
}

// WithoutExpiry is a storageEngine option without settings of expiry, nil where
// that leaves nothing.
func WithoutExpiry(storageEngine bson.Doc) bson.Doc { return withExpiry(storageEngine, nil) }

// withExpiry puts settings into a storageEngine option; nil if that leaves
// nothing.
func withExpiry(storageEngine, expiry bson.Doc) bson.Doc {
	var b bson.Builder
	b.Reset(nil)
	for engine, v := range storageEngine.All() {
		if engine != "mayfly" {
			b.Value(engine, v)
		}
	}
	if !expiry.IsEmpty() {
		b.OpenDoc("mayfly").Doc("expiry", expiry).Close()
	}
	if d := b.Finish(); !d.IsEmpty() {
		return d
	}
	return nil
}

// CheckRuleExpiry refuses settings of a rule of the collection that it cannot have:
// error 72.
func (o *Options) CheckRuleExpiry(e Expiry) error {
	if e.Relayout != "" {
		return invalidOptions("'%s.relayout' is only for collections", expiryPath)
	}
	if err := o.checkArchive(e); err != nil {
		return err
	}
	return o.checkExact(e)
}

// checkExact refuses the setting exact where documents are not measurements: error
// 72.
func (o *Options) checkExact(e Expiry) error {
	if e.Exact && o.Timeseries == nil {
		return invalidOptions("'%s.exact' is only supported on time-series collections", expiryPath)
	}
	return nil
}

// checkOwnExpiry refuses settings of the collection that it cannot have: error
// 72.
func (o *Options) checkOwnExpiry() error {
	if o.Expiry.By != "" {
		return invalidOptions("'%s.by' is only for indexes", expiryPath)
	}
	if o.Expiry.Archive != nil {
		return invalidOptions("'%s.archive' is only for indexes", expiryPath)
	}
	if o.Expiry.Relayout != "" && o.Timeseries != nil {
		return invalidOptions("'%s.relayout' is not supported on time-series collections", expiryPath)
	}
	return o.checkExact(o.Expiry)
}
