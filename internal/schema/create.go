package schema

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// The bounds of `create`.
const (
	// MaxCappedSize is the most bytes a capped collection may have.
	MaxCappedSize = int64(1) << 50
	maxCappedDocs = int64(1) << 31
)

// genericArguments are the arguments of all commands, which may be in a
// `create` and do not apply to the collection.
var genericArguments = map[string]bool{
	"$db": true, "lsid": true, "$clusterTime": true, "comment": true, "writeConcern": true, "readConcern": true,
	"maxTimeMS": true, "apiVersion": true, "apiStrict": true, "apiDeprecationErrors": true, "txnNumber": true,
	"autocommit": true, "startTransaction": true, "$readPreference": true, "rawData": true,
	"shardVersion": true, "databaseVersion": true,
}

func isGenericArgument(name string) bool { return genericArguments[name] }

// NewOptions makes a collection's options from the arguments of `create`, whose types
// the command has checked; null counts as absent. nowSeconds is the time, in seconds
// since 1970. idIndex is the index on _id that the arguments ask for, nil if they do
// not. Errors: mostly 72 and 2; see the rules in this file.
func NewOptions(ns Namespace, args bson.Doc, nowSeconds int64) (o *Options, idIndex *Index, err error) {
	o = &Options{ExpireAfterSeconds: NoExpiry}
	get := func(name string) bson.Value {
		if v := args.Lookup(name); !v.IsNullish() {
			return v
		}
		return bson.Value{}
	}
	if err := o.setShape(ns, args, get); err != nil {
		return nil, nil, err
	}
	if err := o.setStorage(get); err != nil {
		return nil, nil, err
	}
	if c := get("collation"); !c.IsMissing() {
		if o.Collation, err = ParseCollation(c.Doc()); err != nil {
			return nil, nil, err
		}
	}
	if id := get("idIndex"); !id.IsMissing() {
		if idIndex, err = o.parseIDIndex(ns, id.Doc()); err != nil {
			return nil, nil, err
		}
	}
	if err := o.setExpiry(get("expireAfterSeconds"), nowSeconds); err != nil {
		return nil, nil, err
	}
	if err := o.setValidator(ns, get); err != nil {
		return nil, nil, err
	}
	if v := get("changeStreamPreAndPostImages"); !v.IsMissing() {
		o.PreAndPostImages = v.Doc().Lookup("enabled").Truthy()
		if o.ViewOn != "" && o.PreAndPostImages {
			return nil, nil, invalidOptions("changeStreamPreAndPostImages cannot be enabled on a view: %s", ns)
		}
	}
	if v := get("encryptedFields"); !v.IsMissing() {
		if err := o.setEncrypted(v.Doc()); err != nil {
			return nil, nil, err
		}
	}
	if err := o.checkOwnExpiry(); err != nil {
		return nil, nil, err
	}
	o.dropWhatViewsIgnore()
	return o, idIndex, nil
}

func invalidOptions(format string, args ...any) error {
	return mongoerr.New(mongoerr.InvalidOptions, format, args...)
}

type getter func(name string) bson.Value

// setShape decides what is created: an ordinary, capped, clustered or
// time-series collection, or a view.
func (o *Options) setShape(ns Namespace, args bson.Doc, get getter) error {
	if t := get("timeseries"); !t.IsMissing() {
		if e := get("encryptedFields"); !e.IsMissing() {
			return encryptedShape()
		}
		var err error
		o.Timeseries, err = parseTimeseries(ns, args, t.Doc())
		return err
	}
	if c := args.Lookup("clusteredIndex"); !c.IsMissing() {
		if err := o.setClustered(ns, c, get); err != nil {
			return err
		}
	} else if err := o.setCapped(get); err != nil {
		return err
	}
	return o.setView(get)
}

func (o *Options) setCapped(get getter) error {
	size, docs := get("size"), get("max")
	o.Capped = get("capped").Truthy()
	if o.Capped && size.IsMissing() {
		return invalidOptions("the 'size' field is required when 'capped' is true")
	}
	if !o.Capped && !(size.IsMissing() && docs.IsMissing()) {
		return invalidOptions("the 'capped' field needs to be true when either the 'size' or 'max' fields are present")
	}
	o.Size, o.Max = bson.ClampToInt64(size), bson.ClampToInt64(docs)
	if o.Capped {
		if err := checkCappedSize(o.Size); err != nil {
			return err
		}
	}
	if o.Max >= maxCappedDocs {
		return mongoerr.New(mongoerr.BadValue, "max in a capped collection has to be < 2^31 or not set")
	}
	o.Max = max(o.Max, 0)
	return nil
}

func checkCappedSize(n int64) error {
	switch {
	case n < 1:
		return mongoerr.New(mongoerr.BadValue, "BSON field 'create.size' value must be >= 1, actual value '%d'", n)
	case n > MaxCappedSize:
		return mongoerr.New(mongoerr.BadValue, "BSON field 'create.size' value must be <= %d, actual value '%d'", MaxCappedSize, n)
	}
	return nil
}

// setClustered reads clusteredIndex: a specification, or a bool in the legacy
// form.
func (o *Options) setClustered(ns Namespace, c bson.Value, get getter) error {
	switch {
	case get("capped").Truthy():
		return mongoerr.New(mongoerr.Code(6049200), "The 'capped' option is not supported with the 'clusteredIndex' option")
	case !get("max").IsMissing():
		return mongoerr.New(mongoerr.Code(6049204), "The 'max' option is not supported with the 'clusteredIndex' option")
	case !get("autoIndexId").IsMissing() && !get("autoIndexId").Truthy():
		return mongoerr.New(mongoerr.Code(6026501), "The 'autoIndexId' option is not supported with the 'clusteredIndex' option")
	case !get("viewOn").IsMissing():
		return mongoerr.New(mongoerr.Code(6026500), "The 'clusteredIndex' option is not supported with views")
	case !get("idIndex").IsMissing():
		return invalidOptions("The 'clusteredIndex' option is not supported with the 'idIndex' option")
	}
	if c.Type != bson.TypeDocument {
		if !c.Truthy() {
			return nil
		}
		return mongoerr.New(mongoerr.Code(5979703),
			"'clusteredIndex' legacy format {clusteredIndex: <bool>} only supported for specific internal collections and cannot be specified on ns: %s", ns)
	}
	d := c.Doc()
	key := document(d.Lookup("key"))
	if !bson.Equal(bson.Document(key), bson.Document(idKey)) {
		return mongoerr.New(mongoerr.InvalidIndexSpecificationOption,
			"The 'clusteredIndex' option requires the 'key' field to be {_id: 1}, found: %s", key)
	}
	if !d.Lookup("unique").Truthy() {
		return mongoerr.New(mongoerr.Code(5979700), "The clusteredIndex option requires unique: true to be specified")
	}
	if v := d.Lookup("v"); !v.IsNullish() && bson.ClampToInt64(v) != 2 {
		return mongoerr.New(mongoerr.Code(5979704), "Invalid clusteredIndex index version v: %d. Expected v: 2", bson.ClampToInt64(v))
	}
	o.Clustered = &Clustered{Name: IDIndexName}
	if name := d.Lookup("name"); name.Type == bson.TypeString {
		o.Clustered.Name = name.Str()
	}
	return nil
}

func (o *Options) setView(get getter) error {
	on, pipeline := get("viewOn"), get("pipeline")
	if on.IsMissing() {
		if !pipeline.IsMissing() {
			return invalidOptions("'pipeline' requires 'viewOn' to also be specified")
		}
		return nil
	}
	if on.Str() == "" {
		return mongoerr.New(mongoerr.BadValue, "'viewOn' cannot be empty")
	}
	if !get("idIndex").IsMissing() {
		return invalidOptions("'idIndex' is not allowed with 'viewOn'")
	}
	if !get("encryptedFields").IsMissing() {
		return encryptedShape()
	}
	o.ViewOn = on.Str()
	// Null elements of a pipeline are ignored.
	var b bson.Builder
	b.Reset(nil)
	n := 0
	for _, v := range document(pipeline).All() {
		if !v.IsNullish() {
			b.Value(bson.Index(n), v)
			n++
		}
	}
	o.Pipeline = b.Finish()
	return nil
}

// dropWhatViewsIgnore removes the options that do not apply to a view.
func (o *Options) dropWhatViewsIgnore() {
	if o.ViewOn != "" {
		*o = Options{ViewOn: o.ViewOn, Pipeline: o.Pipeline, Collation: o.Collation, ExpireAfterSeconds: NoExpiry}
	}
}

// parseIDIndex checks the specification of the index on _id.
func (o *Options) parseIDIndex(ns Namespace, spec bson.Doc) (*Index, error) {
	if err := validateSpec(spec); err != nil {
		return nil, err
	}
	spec = withVersion(spec)
	if err := validateIDSpec(spec); err != nil {
		return nil, err
	}
	if text(spec.Lookup("name")) == "" {
		return nil, cannotCreate("index name cannot be empty")
	}
	spec, err := withCollation(spec, o.Collation)
	if err != nil {
		return nil, err
	}
	ix, err := LoadIndex(storedForm(spec))
	if err != nil {
		return nil, err
	}
	if string(ix.Collation) != string(o.Collation.spec()) {
		return nil, mongoerr.New(mongoerr.BadValue, "'idIndex' must have the same collation as the collection. Collation of the collection: %s, collation of the index: %s",
			collationText(o.Collation.spec()), collationText(ix.Collation))
	}
	return ix, nil
}

// setExpiry checks the TTL of a collection as a whole: error 72.
func (o *Options) setExpiry(v bson.Value, nowSeconds int64) error {
	if v.IsMissing() {
		return nil
	}
	if o.Timeseries == nil && o.Clustered == nil {
		return invalidOptions("'expireAfterSeconds' is only supported on time-series collections or when the 'clusteredIndex' option is specified")
	}
	return o.SetExpireAfter(v, nowSeconds)
}

// SetExpireAfter gives a clustered or time-series collection a TTL, which is a
// number: error 72 if it is negative, reaches back behind 1970, or is refused
// by ExpireAfter. nowSeconds is the time, in seconds since 1970.
func (o *Options) SetExpireAfter(v bson.Value, nowSeconds int64) error {
	n, err := ExpireAfter(v, mongoerr.InvalidOptions)
	switch {
	case err != nil:
		return err
	case n < 0:
		return invalidOptions("TTL index 'expireAfterSeconds' option cannot be less than 0")
	case n > math.MaxInt64/1000:
		return invalidOptions("TTL index 'expireAfterSeconds' option cannot overflow int64_t when cast as milliseconds, found %d", n)
	case n > nowSeconds:
		return invalidOptions("TTL index 'expireAfterSeconds' option cannot exceed time since last epoch (%d seconds) found %d", nowSeconds, n)
	}
	o.ExpireAfterSeconds = n
	return nil
}
