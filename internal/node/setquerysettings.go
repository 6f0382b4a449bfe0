package node

import (
	"bytes"
	"context"
	"encoding/hex"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

var (
	ofShape = func() *command.Field {
		return command.Value(command.OneOf("", bson.TypeDocument, bson.TypeString).NotNull().Required())
	}
	setQuerySettingsFields    = command.NewFields("setQuerySettings", ofShape(), command.Object("settings").Required())
	removeQuerySettingsFields = command.NewFields("removeQuerySettings", ofShape())

	settingsFields = command.NewFields("querySettings",
		command.OneOf("indexHints", bson.TypeArray, bson.TypeDocument),
		command.Enum("queryFramework", "classic", "sbe"),
		command.OptionalBool("reject"),
		command.Any("comment"),
	)
	indexHintFields = command.NewFields("querySettings.indexHints",
		command.Struct("ns", command.NewFields("ns", command.String("db"), command.String("coll"))).Required(),
		command.Array("allowedIndexes").Required(),
	)
)

// setQuerySettings answers {setQuerySettings: query or hash, settings: {indexHints,
// queryFramework, reject, comment}}: what it gives takes the place of what was set. (Manual:
// database command setQuerySettings.) queryFramework is kept and shown; there is one
// framework here.
func (n *Node) setQuerySettings() *command.Command {
	return &command.Command{
		Name: "setQuerySettings", Flags: command.AdminOnly | command.Writes, Fields: setQuerySettingsFields,
		Help: "Sets the query settings for the query shape of a given query.", Run: n.runSetQuerySettings,
	}
}

// removeQuerySettings answers {removeQuerySettings: query or hash}. (Manual: database command
// removeQuerySettings.)
func (n *Node) removeQuerySettings() *command.Command {
	return &command.Command{
		Name: "removeQuerySettings", Flags: command.AdminOnly | command.Writes, Fields: removeQuerySettingsFields,
		Help: "Removes the query settings for the query shape of a given query.", Run: n.runRemoveQuerySettings,
	}
}

func (n *Node) runSetQuerySettings(ctx context.Context, op *command.Op) error {
	given, err := parseSettings(op.Args.Doc("settings"))
	if err != nil {
		return err
	}
	hash, query, err := n.shapeAsked(op, op.Args.Value("setQuerySettings"))
	if err != nil {
		return err
	}
	if given.IsEmpty() {
		return mongoerr.New(8727502, "settings field in setQuerySettings command cannot be empty")
	}
	if query != nil {
		if err := settable(query); err != nil {
			return err
		}
	}
	var set bson.Doc
	err = n.changeSettings(ctx, func(list []bson.Doc) ([]bson.Doc, error) {
		at := indexOfHash(list, hash)
		switch {
		case at < 0 && query == nil:
			return nil, mongoerr.New(7746401, "New query settings can only be created with a query instance, but a query hash was given.")
		case at < 0:
			at, list = len(list), append(list, nil)
		default:
			given = mergeSettings(list[at].Lookup("settings").Doc(), given)
			query = list[at].Lookup("representativeQuery").Doc()
		}
		settings, err := checkSettings(given, query)
		if err != nil {
			return nil, err
		}
		set = new(bson.Builder).String("queryShapeHash", hash).Doc("settings", settings).Doc("representativeQuery", query).Finish()
		list[at] = set
		return list, nil
	})
	if err == nil {
		op.Reply.Fields(set)
	}
	return err
}

func (n *Node) runRemoveQuerySettings(ctx context.Context, op *command.Op) error {
	hash, _, err := n.shapeAsked(op, op.Args.Value("removeQuerySettings"))
	if err != nil {
		return err
	}
	return n.changeSettings(ctx, func(list []bson.Doc) ([]bson.Doc, error) {
		at := indexOfHash(list, hash)
		if at < 0 {
			return list, nil
		}
		return append(list[:at:at], list[at+1:]...), nil
	})
}

func indexOfHash(list []bson.Doc, hash string) int {
	for i, d := range list {
		if d.Lookup("queryShapeHash").Str() == hash {
			return i
		}
	}
	return -1
}

// shapeAsked reads the query or the hash that a command names; query is nil for a hash.
// Errors: 2, 16 for no hash, 73, 40414, 7746402, and those of a query that is invalid.
func (n *Node) shapeAsked(op *command.Op, v bson.Value) (hash string, query bson.Doc, err error) {
	if v.Type == bson.TypeString {
		if v.Str() == "" {
			return "", nil, mongoerr.New(mongoerr.InvalidLength, "Unsupported SHA256Block hash length: 0")
		}
		b, err := hex.DecodeString(v.Str())
		if err != nil {
			return "", nil, mongoerr.New(mongoerr.BadValue, "The input is not a hexadecimal hash: %s", v)
		}
		if len(b) != 32 {
			return "", nil, mongoerr.New(mongoerr.InvalidLength, "Unsupported SHA256Block hash length: %d", len(b))
		}
		return strings.ToUpper(v.Str()), nil, nil
	}
	query = v.Doc()
	name, coll := query.First()
	if name != "find" && name != "aggregate" && name != "distinct" {
		return "", nil, mongoerr.New(7746402, "QueryShape can not be computed for command: %s", query)
	}
	db := query.Lookup("$db")
	if db.IsNullish() {
		return "", nil, mongoerr.New(mongoerr.Code(40414), "BSON field '%s.$db' is missing but a required field", name)
	}
	if db.Type != bson.TypeString {
		return "", nil, mongoerr.New(mongoerr.TypeMismatch, "BSON field '%s.$db' is the wrong type '%s', expected type 'string'", name, db.Type)
	}
	if !command.ValidDatabaseName(db.Str()) {
		return "", nil, mongoerr.New(mongoerr.InvalidNamespace, "Invalid database name: '%s'", db.Str())
	}
	if coll.Type != bson.TypeString {
		return "", nil, mongoerr.New(mongoerr.InvalidNamespace, "Collection namespace string must be provided for setQuerySettings command")
	}
	if err := n.checkQuery(op, name, db.Str(), query); err != nil {
		return "", nil, err
	}
	return QueryShapeHash(db.Str(), query), query, nil
}

// checkQuery parses a query that settings are about.
func (n *Node) checkQuery(op *command.Op, name, db string, query bson.Doc) error {
	fields := map[string]*command.Fields{"find": findFields, "aggregate": aggregateFields, "distinct": distinctFields}[name]
	inner := &command.Op{DB: db, NS: db + ".$cmd", Name: name, Body: query, Client: op.Client, Dispatcher: op.Dispatcher, Start: op.Start}
	inner.EndWith(op)
	var err error
	if inner.Args, err = command.Parse(inner, fields); err != nil {
		return err
	}
	a := &inner.Args
	if name == "aggregate" {
		ns, list, err := AggregateTarget(inner)
		if err == nil {
			_, err = n.parseAggregation(inner, ns, list, n.aggregateReading(a))
		}
		return err
	}
	filter, let := "query", bson.Doc(nil)
	if name == "find" {
		filter, let = "filter", a.Doc("let")
	}
	s, err := n.newScope(inner, nil, let, a.Doc("collation"))
	if err == nil {
		_, err = n.scopedQuery(inner, nil, s, a.Doc(filter))
	}
	return err
}

// settable returns the error for a query that has no settings. Errors: 7746606, 8584900,
// 8584901.
func settable(query bson.Doc) error {
	name, coll := query.First()
	ns := schema.Namespace{DB: query.Lookup("$db").Str(), Coll: coll.Str()}
	if ns.DB == "admin" || ns.DB == "config" || ns.DB == "local" {
		return mongoerr.New(8584900, "setQuerySettings command cannot be used on internal databases")
	}
	if ns.IsSystem() {
		return mongoerr.New(8584901, "setQuerySettings command cannot be used on system collections")
	}
	if name != "find" {
		return nil
	}
	filter := query.Lookup("filter")
	if filter.Type != bson.TypeDocument || filter.Doc().Len() != 1 {
		return nil
	}
	field, v := filter.Doc().First()
	if isOperators(v) {
		op, _ := v.Doc().First()
		if op != "$eq" || v.Doc().Len() != 1 {
			return nil
		}
	}
	for _, option := range []string{"skip", "hint", "min", "max", "returnKey", "showRecordId", "tailable"} {
		if query.Has(option) {
			return nil
		}
	}
	if field == "_id" && v.Type != bson.TypeRegex {
		return mongoerr.New(7746606, "setQuerySettings command cannot be used on find queries eligible for IDHACK")
	}
	return nil
}

// parseSettings checks the types of settings. Errors: 9, 14, 40414, 40415, 2.
func parseSettings(d bson.Doc) (bson.Doc, error) {
	a, err := command.ParseDoc(settingsFields, d)
	if err != nil {
		return nil, err
	}
	b := new(bson.Builder)
	if a.Has("indexHints") {
		b.OpenArray("indexHints")
		for i, v := range a.Array("indexHints") {
			if v.Type != bson.TypeDocument {
				return nil, mongoerr.New(mongoerr.TypeMismatch, "BSON field 'querySettings.indexHints.%d' is the wrong type '%s', expected type 'object'", i, v.Type)
			}
			hint, err := command.ParseDoc(indexHintFields, v.Doc())
			if err != nil {
				return nil, err
			}
			for _, ix := range hint.Array("allowedIndexes") {
				if ix.Type != bson.TypeString && ix.Type != bson.TypeDocument {
					return nil, mongoerr.New(mongoerr.FailedToParse, "Hint must be a string or an object")
				}
			}
			b.Doc(bson.Index(i), v.Doc())
		}
		b.Close()
	}
	for _, name := range []string{"queryFramework", "reject", "comment"} {
		b.Value(name, a.Value(name))
	}
	return b.Finish(), nil
}

// mergeSettings returns settings with those that were given in their place.
func mergeSettings(was, given bson.Doc) bson.Doc {
	b := new(bson.Builder)
	for _, name := range []string{"indexHints", "queryFramework", "reject", "comment"} {
		if given.Has(name) {
			b.Value(name, given.Lookup(name))
		} else {
			b.Value(name, was.Lookup(name))
		}
	}
	return b.Finish()
}

// checkSettings returns settings without what says nothing. Errors: 7746604 where nothing is
// left, 7746608, 8705200, 8727500, 8727501, 9646000, 9646001.
func checkSettings(given, query bson.Doc) (bson.Doc, error) {
	b := new(bson.Builder)
	significant, n := given.Has("queryFramework"), 0
	seen := map[schema.Namespace]bool{}
	hints := new(bson.Builder)
	if v := given.Lookup("indexHints"); v.Type == bson.TypeArray {
		for h := range v.Doc().Values() {
			ns, err := checkHint(h.Doc())
			if err != nil {
				return nil, err
			}
			if h.Doc().Lookup("allowedIndexes").Doc().IsEmpty() {
				continue
			}
			if seen[ns] {
				return nil, mongoerr.New(7746608, "Collection '%s' has already index hints specified", h)
			}
			seen[ns] = true
			hints.Doc(bson.Index(n), h.Doc())
			n++
		}
	}
	if n > 0 {
		significant = true
		b.Array("indexHints", hints.Finish())
	}
	b.Value("queryFramework", given.Lookup("queryFramework"))
	if given.Lookup("reject").Truthy() {
		significant = true
		b.Bool("reject", true)
		if stages := query.Lookup("pipeline"); stages.Type == bson.TypeArray {
			_, first := stages.Doc().First()
			if first.Type == bson.TypeDocument {
				if name, _ := first.Doc().First(); isSystemStage(name) {
					return nil, mongoerr.New(8705200, "Setting {reject:true} is forbidden for query containing stage: %s", name)
				}
			}
		}
	}
	if !significant {
		return nil, mongoerr.New(7746604, "the resulting settings cannot be empty or contain only default values")
	}
	return b.Value("comment", given.Lookup("comment")).Finish(), nil
}

// checkHint checks an index hint, and returns its collection.
func checkHint(h bson.Doc) (schema.Namespace, error) {
	named := h.Lookup("ns").Doc()
	db, coll := named.Lookup("db"), named.Lookup("coll")
	if db.IsNullish() {
		return schema.Namespace{}, mongoerr.New(8727500, "invalid index hint: 'ns.db' field is missing")
	}
	if coll.IsNullish() {
		return schema.Namespace{}, mongoerr.New(8727501, "invalid index hint: 'ns.coll' field is missing")
	}
	ns := schema.Namespace{DB: db.Str(), Coll: coll.Str()}
	for ix := range h.Lookup("allowedIndexes").Doc().Values() {
		if ix.Type != bson.TypeDocument || ix.Doc().Has("$natural") {
			continue
		}
		if ix.Doc().IsEmpty() {
			return ns, mongoerr.New(9646000, "key pattern index can't be empty")
		}
		spec := new(bson.Builder).Doc("key", ix.Doc()).String("name", "hint").Finish()
		if _, err := schema.ParseIndexSpec(ns, spec, false); err != nil {
			return ns, mongoerr.New(9646001, "invalid index key pattern hint :: caused by :: %s", mongoerr.From(err).Message)
		}
	}
	return ns, nil
}

// changeSettings changes the parameter by f, which gets its list as it is stored, and puts it
// into effect. f runs again where the unit could not wait for a lock.
func (n *Node) changeSettings(ctx context.Context, f func(list []bson.Doc) ([]bson.Doc, error)) error {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if err := n.loadClusterParameters(); err != nil {
		return err
	}
	c := n.Catalog.Lookup(ParametersNamespace)
	if c == nil {
		var err error
		if c, err = n.Catalog.Create(ctx, ParametersNamespace, nil); err != nil {
			return err
		}
	}
	p := &clusterParameter{name: querySettingsName}
	key := c.AppendIDKey(nil, bson.String(p.name))
	var now bson.Doc
	err := n.Catalog.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		old, err := u.LockRecord(ctx, c, key)
		if err != nil {
			return err
		}
		var list []bson.Doc
		if v := old.Lookup("settingsArray"); v.Type == bson.TypeArray {
			for d := range v.Doc().Values() {
				list = append(list, d.Doc())
			}
		}
		if list, err = f(list); err != nil {
			return err
		}
		b := new(bson.Builder).OpenArray("settingsArray")
		for i, d := range list {
			b.Doc(bson.Index(i), d)
		}
		now = ClusterParameter(p.name, b.Close().Finish(), n.timestamp())
		if len(now) > maxSettings {
			return mongoerr.New(mongoerr.BSONObjectTooLarge, "cannot modify query settings: the total size exceeds %d bytes", maxSettings)
		}
		if old == nil {
			return u.Insert(ctx, c, now)
		}
		if bytes.Equal(old, now) {
			return nil
		}
		return u.Update(ctx, c, key, old, now)
	})
	if err != nil {
		return err
	}
	n.cluster.values[p.name] = now
	n.applyClusterParameter(p, now)
	return nil
}
