package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// The kinds of listCollections.
const (
	kindCollection = "collection"
	kindView       = "view"
	kindTimeseries = "timeseries"
)

// definition is a collection or view as its server lists it.
type definition struct {
	db, coll, kind string
	uuid           bson.UUID // of a collection
	options        bson.Doc
	indexes        []bson.Doc // but for that of _id
}

func (d *definition) name() string { return d.db + "." + d.coll }

// late reports whether it is copied at the cut-over, as its changes are not told.
func (d *definition) late() bool {
	return d.kind == kindTimeseries || d.options.Lookup("capped").Truthy()
}

// ownDatabases are those that are not copied.
var ownDatabases = []string{"admin", "config", "local", ownDB}

// list returns all of a server's collections and views.
func list(ctx context.Context, e *end) (all []*definition, err error) {
	dbs, err := databases(ctx, e)
	if err != nil {
		return nil, err
	}
	for _, db := range dbs {
		of, err := listOf(ctx, e, db, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}

// databases returns the names of those that are copied.
func databases(ctx context.Context, e *end) (names []string, err error) {
	reply, err := e.run(ctx, "admin", new(bson.Builder).Int32("listDatabases", 1).Bool("nameOnly", true).Finish())
	if err != nil {
		return nil, err
	}
	for v := range reply.Lookup("databases").Doc().Values() {
		if db := strings.Clone(v.Doc().Lookup("name").Str()); !slices.Contains(ownDatabases, db) {
			names = append(names, db)
		}
	}
	return names, nil
}

// listOf returns the collections and views of a database that pass a filter, nil for all.
func listOf(ctx context.Context, e *end, db string, filter bson.Doc) (all []*definition, err error) {
	b := new(bson.Builder).Int32("listCollections", 1)
	if filter != nil {
		b.Doc("filter", filter)
	}
	docs, err := e.all(ctx, db, b.Finish())
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		c := &definition{db: db, coll: d.Lookup("name").Str(), kind: d.Lookup("type").Str(), options: d.Lookup("options").Doc()}
		if strings.HasPrefix(c.coll, "system.") {
			continue
		}
		c.uuid, _ = uuidOf(d.Lookup("info").Doc().Lookup("uuid"))
		if c.kind != kindView {
			c.indexes, err = indexesOf(ctx, e, db, c.coll)
			if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
				continue // dropped meanwhile
			}
			if err != nil {
				return nil, err
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// named returns the collection or view of a name; nil if there is none.
func named(ctx context.Context, e *end, db, coll string) (*definition, error) {
	all, err := listOf(ctx, e, db, new(bson.Builder).String("name", coll).Finish())
	if err != nil || len(all) == 0 {
		return nil, err
	}
	return all[0], nil
}

// ofUUID returns the collection that has a UUID, most likely in a database; nil if there is none.
func ofUUID(ctx context.Context, e *end, db string, id bson.UUID) (*definition, error) {
	filter := new(bson.Builder).Value("info.uuid", uuidValue(id)).Finish()
	dbs := []string{db}
	for i := 0; i < len(dbs); i++ {
		all, err := listOf(ctx, e, dbs[i], filter)
		if err != nil {
			return nil, err
		}
		if len(all) > 0 {
			return all[0], nil
		}
		if i == 0 { // it was renamed to another one
			if dbs, err = databases(ctx, e); err != nil {
				return nil, err
			}
			dbs = append([]string{db}, dbs...)
		}
	}
	return nil, nil
}

// indexesOf returns the indexes of a collection, without that of _id or of the records.
func indexesOf(ctx context.Context, e *end, db, coll string) (specs []bson.Doc, err error) {
	docs, err := e.all(ctx, db, new(bson.Builder).String("listIndexes", coll).Finish())
	if err != nil {
		return nil, err
	}
	for _, d := range docs {
		if d.Lookup("name").Str() == "_id_" || d.Lookup("clustered").Truthy() {
			continue
		}
		b := new(bson.Builder)
		for name, v := range d.All() {
			if name != "v" && name != "ns" && name != "background" {
				b.Value(name, v)
			}
		}
		specs = append(specs, b.Finish())
	}
	return specs, nil
}

// settings are the values of one kind of definition by their names.
type settings map[string]bson.Value

func settingsOf(d bson.Doc) settings {
	s := settings{}
	for name, v := range d.All() {
		s[name] = v
	}
	return s
}

// differ returns the names of what differs, sorted.
func (s settings) differ(o settings) (names []string) {
	for name, v := range s {
		if w := o[name]; w.Type == bson.Missing || !bson.Equal(v, w) {
			names = append(names, name)
		}
	}
	for name := range o {
		if _, ok := s[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// expirySettings are those of storageEngine.mayfly.expiry.
func expirySettings(options bson.Doc) settings {
	at := options
	for _, name := range []string{"storageEngine", "mayfly", "expiry"} {
		v := at.Lookup(name)
		if v.Type != bson.TypeDocument {
			return settings{}
		}
		at = v.Doc()
	}
	return settingsOf(at)
}

// byLastWrite reports whether an index is a rule by the last write.
func byLastWrite(spec bson.Doc) bool {
	by := expirySettings(spec)["by"]
	return by.Type == bson.TypeString && by.Str() == "lastWrite"
}

// normal returns a collection's options with what stands for a default taken away.
func normal(options bson.Doc) settings {
	s := settingsOf(options)
	delete(s, "autoIndexId")
	for name, usual := range map[string]string{"validationLevel": "strict", "validationAction": "error"} {
		if v := s[name]; v.Type == bson.TypeString && v.Str() == usual {
			delete(s, name)
		}
	}
	for _, name := range []string{"validator", "storageEngine"} {
		if v := s[name]; v.Type == bson.TypeDocument && v.Doc().IsEmpty() {
			delete(s, name)
		}
	}
	if v := s["changeStreamPreAndPostImages"]; v.Type == bson.TypeDocument && !v.Doc().Lookup("enabled").Truthy() {
		delete(s, "changeStreamPreAndPostImages")
	}
	return s
}

// held returns the definition as it is until the cut-over, when nothing may stand in the way of
// documents and nothing may expire (invariant nothing-expires-early).
func (d *definition) held(mayfly bool) *definition {
	h := *d
	h.options = d.options.Clone()
	if mayfly && d.kind != kindView { // rules are there, and paused: documents lie by windows from the first
		b := new(bson.Builder)
		for name, v := range d.options.All() {
			if name != "storageEngine" {
				b.Value(name, v)
			}
		}
		b.OpenDoc("storageEngine").OpenDoc("mayfly").OpenDoc("expiry")
		for name, v := range expirySettings(d.options) {
			if name != "paused" {
				b.Value(name, v)
			}
		}
		h.options = b.Bool("paused", true).Close().Close().Close().Finish()
	} else if d.options.Has("expireAfterSeconds") {
		h.options = without(d.options, "expireAfterSeconds")
	}
	h.indexes = nil
	for _, spec := range d.indexes {
		if byLastWrite(spec) { // it would stamp _ts
			continue
		}
		spec = without(spec, "unique", "prepareUnique")
		if !mayfly {
			spec = without(spec, "expireAfterSeconds")
		}
		h.indexes = append(h.indexes, spec)
	}
	return &h
}

func without(d bson.Doc, names ...string) bson.Doc {
	b := new(bson.Builder).Reset(nil)
	for name, v := range d.All() {
		if !slices.Contains(names, name) {
			b.Value(name, v)
		}
	}
	return b.Finish()
}

// ensure makes the target's collection or view as a definition says, whatever it was before; a
// second time it changes nothing. It returns what the target has then.
func (im *Importer) ensure(ctx context.Context, d *definition) (have *definition, err error) {
	have, err = named(ctx, im.to, d.db, d.coll)
	if err != nil {
		return nil, err
	}
	if have != nil && have.kind != d.kind && (have.kind == kindView || d.kind == kindView) {
		if have.kind != kindView {
			return nil, fmt.Errorf("%s is a view at the source, and a collection at the target", d.name())
		}
		if _, err := im.ddl(ctx, d.db, new(bson.Builder).String("drop", d.coll).Finish()); err != nil {
			return nil, err
		}
		have = nil
	}
	if have == nil {
		body := new(bson.Builder).String("create", d.coll).Fields(without(d.options, "autoIndexId")).Finish()
		if _, err := im.ddl(ctx, d.db, body); err != nil && !mongoerr.Is(err, mongoerr.NamespaceExists) {
			return nil, fmt.Errorf("making %s: %w", d.name(), err)
		}
		if have, err = named(ctx, im.to, d.db, d.coll); err != nil {
			return nil, err
		}
		if have == nil {
			return nil, gone(d)
		}
	} else if err := im.modify(ctx, have, d); err != nil {
		return nil, fmt.Errorf("changing %s: %w", d.name(), err)
	}
	if d.kind != kindView {
		if err := im.index(ctx, d, have.uuid); err != nil {
			return nil, err
		}
	}
	if have, err = named(ctx, im.to, d.db, d.coll); err != nil {
		return nil, err
	}
	if have == nil {
		return nil, gone(d)
	}
	return have, same(have, d)
}

func gone(d *definition) error {
	return fmt.Errorf("%s was made at the target, and is gone: does somebody else write there?", d.name())
}

// only appends the UUID of the target's collection, if it has one, so that a command changes this
// one and makes none, however late it arrives.
func only(b *bson.Builder, id bson.UUID) *bson.Builder {
	if id != (bson.UUID{}) {
		b.Value("collectionUUID", uuidValue(id))
	}
	return b
}

// same returns what differs between a collection of the target and its definition.
func same(have, want *definition) error {
	if names := normal(have.options).differ(normal(want.options)); len(names) > 0 {
		return fmt.Errorf("the target does not keep these options of %s: %s. It has %s, and the source %s", want.name(), strings.Join(names, ", "), have.options, want.options)
	}
	for _, spec := range want.indexes {
		name := spec.Lookup("name").Str()
		i := slices.IndexFunc(have.indexes, func(h bson.Doc) bool { return h.Lookup("name").Str() == name })
		if i < 0 {
			return fmt.Errorf("the target does not keep the index %s of %s", name, want.name())
		}
		if names := settingsOf(have.indexes[i]).differ(settingsOf(spec)); len(names) > 0 {
			return fmt.Errorf("the target does not keep these options of the index %s of %s: %s. It has %s, and the source %s", name, want.name(), strings.Join(names, ", "), have.indexes[i], spec)
		}
	}
	return nil
}

// modify changes the options of the target's collection or view that are not as wanted.
func (im *Importer) modify(ctx context.Context, have, want *definition) error {
	h, w := normal(have.options), normal(want.options)
	if want.kind == kindView {
		if len(h.differ(w)) == 0 {
			return nil
		}
		_, err := im.ddl(ctx, want.db, new(bson.Builder).String("collMod", want.coll).Only(want.options, []string{"viewOn", "pipeline"}).Finish())
		return err
	}
	b := new(bson.Builder).String("collMod", want.coll)
	n := b.Len()
	for _, name := range h.differ(w) {
		if name == "storageEngine" {
			if engine := expiryChange(expirySettings(have.options), expirySettings(want.options)); engine != nil {
				b.Doc(name, engine)
			}
		} else if usual, ok := usualOptions[name]; ok {
			v := w[name]
			if v.IsMissing() {
				v = usual
			}
			b.Value(name, v)
		}
	}
	if b.Len() == n {
		return nil
	}
	_, err := im.ddl(ctx, want.db, only(b, have.uuid).Finish())
	return err
}

// usualOptions are what collMod changes, and to what where there is no such option.
var usualOptions = map[string]bson.Value{
	"validator": bson.Document(bson.Empty), "validationLevel": bson.String("strict"), "validationAction": bson.String("error"),
	"changeStreamPreAndPostImages": bson.Document(new(bson.Builder).Bool("enabled", false).Finish()), "expireAfterSeconds": bson.String("off"),
}

// expiryChange is the storageEngine of a collMod that changes settings of expiry; nil for none.
func expiryChange(have, want settings) bson.Doc {
	names := have.differ(want)
	if len(names) == 0 {
		return nil
	}
	b := new(bson.Builder).OpenDoc("mayfly").OpenDoc("expiry")
	for _, name := range names {
		v := want[name]
		if v.IsMissing() {
			v = bson.Null
		}
		b.Value(name, v)
	}
	return b.Close().Close().Finish()
}

// index gives the target's collection, which has a UUID, the indexes of a definition, and no others.
func (im *Importer) index(ctx context.Context, d *definition, id bson.UUID) error {
	have, err := indexesOf(ctx, im.to, d.db, d.coll)
	if err != nil {
		return err
	}
	byName := map[string]bson.Doc{}
	for _, spec := range have {
		byName[spec.Lookup("name").Str()] = spec
	}
	var made, changed []bson.Doc
	for _, spec := range d.indexes {
		name := spec.Lookup("name").Str()
		was, ok := byName[name]
		switch {
		case !ok:
			made = append(made, spec)
		case changeable(was, spec):
			changed = append(changed, spec)
			delete(byName, name)
		default: // it is dropped below
			made = append(made, spec)
		}
	}
	for name := range byName {
		if _, err := im.ddl(ctx, d.db, only(new(bson.Builder).String("dropIndexes", d.coll).String("index", name), id).Finish()); err != nil && !mongoerr.Is(err, mongoerr.IndexNotFound) {
			return fmt.Errorf("dropping the index %s of %s: %w", name, d.name(), err)
		}
	}
	if len(made) > 0 {
		b := new(bson.Builder).String("createIndexes", d.coll).OpenArray("indexes")
		for i, spec := range made {
			b.Doc(bson.Index(i), spec)
		}
		if _, err := im.ddl(ctx, d.db, only(b.Close(), id).Finish()); err != nil {
			return fmt.Errorf("making the indexes of %s: %w", d.name(), err)
		}
	}
	for _, spec := range changed {
		name := spec.Lookup("name").Str()
		i := slices.IndexFunc(have, func(h bson.Doc) bool { return h.Lookup("name").Str() == name })
		if err := im.modifyIndex(ctx, d, id, have[i], spec); err != nil {
			return fmt.Errorf("changing the index %s of %s: %w", name, d.name(), err)
		}
	}
	return nil
}

// changeable reports whether collMod can make one index of another, without a build.
func changeable(have, want bson.Doc) bool {
	for _, name := range settingsOf(have).differ(settingsOf(want)) {
		switch name {
		case "expireAfterSeconds":
			if !want.Has(name) {
				return false
			}
		case "unique":
			if have.Lookup(name).Truthy() {
				return false
			}
		case "storageEngine":
			if byLastWrite(have) != byLastWrite(want) {
				return false
			}
		case "prepareUnique", "hidden":
		default:
			return false
		}
	}
	return true
}

// modifyIndex makes one index of another, where that is changeable.
func (im *Importer) modifyIndex(ctx context.Context, d *definition, id bson.UUID, have, want bson.Doc) error {
	mod := func(fill func(b *bson.Builder)) error {
		b := new(bson.Builder).String("collMod", d.coll).OpenDoc("index").Value("name", want.Lookup("name"))
		fill(b)
		_, err := im.ddl(ctx, d.db, only(b.Close(), id).Finish())
		return err
	}
	for _, name := range settingsOf(have).differ(settingsOf(want)) {
		var err error
		switch name {
		case "unique":
			if err = mod(func(b *bson.Builder) { b.Bool("prepareUnique", true) }); err == nil {
				err = mod(func(b *bson.Builder) { b.Bool("unique", true) })
			}
		case "prepareUnique":
			if !want.Lookup("unique").Truthy() {
				err = mod(func(b *bson.Builder) { b.Bool(name, want.Lookup(name).Truthy()) })
			}
		case "hidden":
			err = mod(func(b *bson.Builder) { b.Bool(name, want.Lookup(name).Truthy()) })
		case "expireAfterSeconds":
			err = mod(func(b *bson.Builder) { b.Value(name, want.Lookup(name)) })
		case "storageEngine":
			err = mod(func(b *bson.Builder) { b.Doc(name, expiryChange(expirySettings(have), expirySettings(want))) })
		}
		var refused *mongoerr.Error
		if errors.As(err, &refused) && len(refused.Extra) > 0 {
			err = fmt.Errorf("%w %s", err, refused.Extra)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
