package node

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// maxViolations is how many duplicate keys an error of collMod lists.
const maxViolations = 20

// index returns the changed index that collMod names; nil if nothing
// changes. Errors: 72, 27, 181, 2, 359.
func (m *collModification) index(c *catalog.Collection, a *command.Args) (*schema.Index, error) {
	ix, err := modifiedIndex(c, a)
	if err != nil {
		return nil, err
	}
	if err := checkIndexTTL(a.Value("expireAfterSeconds")); err != nil {
		return nil, err
	}
	changes := map[string]bson.Value{}
	for _, decide := range []func(*catalog.Collection, *catalog.Index, *command.Args, map[string]bson.Value) error{
		m.expireIndex, m.indexSettings, m.hideIndex, m.prepareUnique, m.makeUnique,
	} {
		if err := decide(c, ix, a, changes); err != nil {
			return nil, err
		}
	}
	if _, prepares := changes["prepareUnique"]; prepares && a.Has("prepareUnique") && (hasTTL(a) || a.Has("storageEngine") || a.Has("hidden") || a.Has("unique")) {
		return nil, mongoerr.New(mongoerr.InvalidOptions, "Combining 'prepareUnique' with any other modification is not supported")
	}
	if len(changes) == 0 {
		return nil, nil
	}
	return ix.With(changes)
}

// modifiedIndex finds the index that collMod is about.
func modifiedIndex(c *catalog.Collection, a *command.Args) (*catalog.Index, error) {
	name, key := a.Has("name"), a.Has("keyPattern")
	switch {
	case name && key:
		return nil, mongoerr.New(mongoerr.InvalidOptions, "Cannot specify both key pattern and name.")
	case !name && !key:
		return nil, mongoerr.New(mongoerr.InvalidOptions, "Must specify either index name or key pattern.")
	case !hasTTL(a) && !a.Has("storageEngine") && !a.Has("hidden") && !a.Has("unique") && !a.Has("prepareUnique"):
		return nil, mongoerr.New(mongoerr.InvalidOptions, "no expireAfterSeconds, hidden, unique, or prepareUnique field")
	case a.Has("unique") && !a.Bool("unique"):
		return nil, mongoerr.New(mongoerr.BadValue, "collMod does not support converting a unique index to a non-unique one: 'unique: false' cannot be specified")
	case c.IsTimeseries() && hasTTL(a):
		return nil, mongoerr.New(mongoerr.InvalidOptions, "TTL indexes are not supported for time-series collections. "+
			"Please refer to the documentation and use the top-level 'expireAfterSeconds' option instead")
	case c.IsTimeseries() && (a.Has("unique") || a.Has("prepareUnique")):
		return nil, notOnTimeseries("index.unique")
	}
	clustered := c.Settings.Clustered != nil
	if name {
		ix := c.Index(a.Str("name"))
		if ix != nil && clustered && ix.Records && a.Has("hidden") {
			return nil, mongoerr.New(mongoerr.Code(6011800), "The 'hidden' option is not supported for a clusteredIndex")
		}
		if ix == nil || clustered && ix.Records {
			return nil, mongoerr.New(mongoerr.IndexNotFound, "cannot find index %s for ns %s", a.Str("name"), c.Namespace)
		}
		return ix, nil
	}
	pattern := a.Doc("keyPattern")
	missing := "cannot find index " + pattern.String() + " for ns " + c.Namespace.String()
	ix, err := findByKey(c, pattern, missing)
	if err == nil && clustered && ix.Records {
		return nil, mongoerr.New(mongoerr.IndexNotFound, "%s", missing)
	}
	return ix, err
}

// hasTTL reports whether collMod changes the TTL of an index.
func hasTTL(a *command.Args) bool { return !a.Value("expireAfterSeconds").IsNullish() }

// noTTL, for expireAfterSeconds, makes a plain index of a TTL index.
const noTTL = "off"

// checkIndexTTL checks the type of an index's expireAfterSeconds: a number, or
// "off".
func checkIndexTTL(v bson.Value) error {
	if v.IsNullish() || v.IsNumber() || v.Type == bson.TypeString && v.Str() == noTTL {
		return nil
	}
	return mongoerr.New(mongoerr.TypeMismatch,
		"BSON field 'collMod.index.expireAfterSeconds' is the wrong type '%s', expected types '[long, int, decimal, double]'", v.Type)
}

func (m *collModification) expireIndex(_ *catalog.Collection, ix *catalog.Index, a *command.Args, changes map[string]bson.Value) error {
	v := a.Value("expireAfterSeconds")
	switch {
	case v.IsNullish():
		return nil
	case v.Type == bson.TypeString:
		return m.stopExpiry(ix, changes)
	}
	// mongod takes NaN for 0, and removes everything in the index.
	if _, err := schema.ExpireAfter(v, mongoerr.InvalidOptions); err != nil {
		return err
	}
	seconds, least := int64(a.Int("expireAfterSeconds")), int64(0)
	if ix.CountsFromWrite() {
		least = -1
	}
	if seconds < least {
		return mongoerr.New(mongoerr.InvalidOptions, "TTL index 'expireAfterSeconds' option cannot be less than %d", least)
	}
	if ix.IsTTL() {
		m.reply.Int64("expireAfterSeconds_old", ix.ExpireAfterSeconds)
	} else if ix.IsID() {
		return mongoerr.New(mongoerr.InvalidOptions, "the _id field does not support TTL indexes")
	} else if len(ix.Parts) != 1 || ix.Plugin == "wildcard" {
		return mongoerr.New(mongoerr.InvalidOptions, "TTL indexes are single-field indexes, compound indexes do not support TTL")
	}
	m.reply.Int64("expireAfterSeconds_new", seconds)
	if seconds == ix.ExpireAfterSeconds {
		return nil
	}
	changes["expireAfterSeconds"] = bson.Int32(int32(seconds))
	return nil
}

// stopExpiry makes a plain index of a TTL index.
func (m *collModification) stopExpiry(ix *catalog.Index, changes map[string]bson.Value) error {
	if ix.CountsFromWrite() {
		return mongoerr.New(mongoerr.InvalidOptions,
			"A TTL index that counts from the last write of a document cannot become a plain index: drop it, pause it, or set 'expireAfterSeconds' to -1")
	}
	if !ix.IsTTL() {
		return nil
	}
	m.reply.Int64("expireAfterSeconds_old", ix.ExpireAfterSeconds)
	changes["expireAfterSeconds"] = bson.Value{}
	changes["storageEngine"] = optional(schema.WithoutExpiry(storageEngineOf(ix)))
	return nil
}

// indexSettings changes the settings of expiry by an index.
func (m *collModification) indexSettings(c *catalog.Collection, ix *catalog.Index, a *command.Args, changes map[string]bson.Value) error {
	if !a.Has("storageEngine") {
		return nil
	}
	ttl, changed := changes["expireAfterSeconds"]
	if !ix.IsTTL() && !changed || changed && ttl.IsMissing() {
		return mongoerr.New(mongoerr.InvalidOptions, "'storageEngine.mayfly.expiry' is only for indexes with 'expireAfterSeconds'")
	}
	to, err := schema.ChangeExpiry(storageEngineOf(ix), a.Doc("storageEngine"))
	if err != nil {
		return err
	}
	e, _, err := schema.ExpiryOf(to)
	if err == nil {
		err = c.Settings.CheckRuleExpiry(e)
	}
	if err == nil && !e.Archive.Same(ix.Expiry.Archive) {
		err = m.n.checkArchive(e.Archive)
	}
	if err != nil {
		return err
	}
	changes["storageEngine"] = optional(to)
	return nil
}

func storageEngineOf(ix *catalog.Index) bson.Doc {
	if v := ix.Spec.Lookup("storageEngine"); v.Type == bson.TypeDocument {
		return v.Doc()
	}
	return nil
}

// optional is a document as a value, Missing if it is nil.
func optional(d bson.Doc) bson.Value {
	if d == nil {
		return bson.Value{}
	}
	return bson.Document(d)
}

func (m *collModification) hideIndex(c *catalog.Collection, ix *catalog.Index, a *command.Args, changes map[string]bson.Value) error {
	if !a.Has("hidden") {
		return nil
	}
	if c.Namespace.IsSystem() && !c.Namespace.IsBuckets() {
		return mongoerr.New(mongoerr.BadValue, "Can't hide index on system collection")
	}
	if ix.IsID() {
		return mongoerr.New(mongoerr.BadValue, "can't hide _id index")
	}
	if a.Bool("hidden") && !ix.Hidden {
		if _, err := keepShardKey(c, []*catalog.Index{ix}, false); err != nil {
			return mongoerr.New(mongoerr.InvalidOptions, "Cannot hide the only compatible index for this collection's shard key")
		}
	}
	m.flag("hidden", ix.Hidden, a.Bool("hidden"), changes)
	return nil
}

func (m *collModification) prepareUnique(_ *catalog.Collection, ix *catalog.Index, a *command.Args, changes map[string]bson.Value) error {
	if !a.Has("prepareUnique") {
		return nil
	}
	if ix.IsID() {
		return mongoerr.New(mongoerr.InvalidOptions, "the _id index is already unique")
	}
	if ix.Unique {
		return nil
	}
	m.flag("prepareUnique", ix.PrepareUnique, a.Bool("prepareUnique"), changes)
	return nil
}

// flag notes the change of a flag, if it changes.
func (m *collModification) flag(name string, was, is bool, changes map[string]bson.Value) {
	if was == is {
		return
	}
	m.reply.Bool(name+"_old", was).Bool(name+"_new", is)
	changes[name] = bson.Bool(is)
}

// makeUnique turns an index that was prepared for it into a unique one.
func (m *collModification) makeUnique(c *catalog.Collection, ix *catalog.Index, a *command.Args, changes map[string]bson.Value) error {
	if !a.Bool("unique") || ix.Unique || ix.IsID() {
		return nil
	}
	if !ix.PrepareUnique {
		return mongoerr.New(mongoerr.InvalidOptions, "Cannot make index unique with collMod without 'prepareUnique'. Run collMod to set it first.")
	}
	duplicates, err := m.n.Catalog.Duplicates(c, ix, maxViolations)
	if err != nil {
		return err
	}
	if len(duplicates) > 0 {
		return m.violations(c, duplicates)
	}
	if !m.args.Bool("dryRun") {
		m.reply.Bool("unique_new", true)
	}
	changes["unique"], changes["prepareUnique"] = bson.True, bson.Value{}
	return nil
}

// violations is error 359, with the _ids of documents that share a key.
func (m *collModification) violations(c *catalog.Collection, duplicates []catalog.Duplicate) error {
	var b bson.Builder
	b.OpenArray("violations")
	for i, d := range duplicates {
		b.OpenDoc(bson.Index(i)).OpenArray("ids")
		for j, key := range d.Records {
			id, err := idOf(m.n.Catalog.Engine(), c, key)
			if err != nil {
				return err
			}
			b.Value(bson.Index(j), id)
		}
		b.Close().Close()
	}
	b.Close()
	return mongoerr.New(mongoerr.CannotConvertIndexToUnique,
		"Cannot convert the index to unique. Please resolve conflicting documents before running collMod again.").WithExtra(b.Finish())
}

// idOf reads the _id of a record.
func idOf(r storage.Reader, c *catalog.Collection, key catalog.RecordKey) (bson.Value, error) {
	doc, closer, err := r.Get(c.Ident, key)
	if err != nil {
		return bson.Value{}, err
	}
	defer closer.Close()
	return bson.Doc(doc).Lookup("_id").Clone(), nil
}
