package node

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/exec/plancache"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Query settings are said by an administrator for all queries of one shape: which indexes
// they may use, or that they are rejected. All are in one cluster parameter, which only
// setQuerySettings and removeQuerySettings change. (Manual: "Query Settings".)

// querySettingsName is the parameter: {settingsArray: [{queryShapeHash, settings,
// representativeQuery}]}.
const querySettingsName = "querySettings"

// maxSettings bounds the parameter's document, in bytes.
const maxSettings = bson.MaxInternalSize

// querySetting is what is set for one shape.
type querySetting struct {
	hash     string
	settings bson.Doc // {indexHints, queryFramework, reject, comment}
	query    bson.Doc // with $db
	hints    map[schema.Namespace]*exec.Preferred
}

// QuerySettings are all settings, found by namespace and shape. nil is none of them. Immutable.
type QuerySettings struct {
	all []*querySetting
	by  map[schema.Namespace]map[string]*querySetting
}

// NewQuerySettings reads the parameter; nil for no settings.
func NewQuerySettings(parameter bson.Doc) *QuerySettings {
	list := parameter.Lookup("settingsArray")
	if list.Type != bson.TypeArray || list.Doc().IsEmpty() {
		return nil
	}
	x := &QuerySettings{by: map[schema.Namespace]map[string]*querySetting{}}
	for v := range list.Doc().Values() {
		d := v.Doc()
		s := &querySetting{hash: d.Lookup("queryShapeHash").Str(), settings: d.Lookup("settings").Doc(), query: d.Lookup("representativeQuery").Doc()}
		s.readHints()
		_, coll := s.query.First()
		ns := schema.Namespace{DB: s.query.Lookup("$db").Str(), Coll: coll.Str()}
		if x.by[ns] == nil {
			x.by[ns] = map[string]*querySetting{}
		}
		x.all = append(x.all, s)
		x.by[ns][s.hash] = s
	}
	return x
}

// readHints reads indexHints: [{ns: {db, coll}, allowedIndexes: [name, key pattern or
// $natural]}].
func (s *querySetting) readHints() {
	s.hints = map[schema.Namespace]*exec.Preferred{}
	hints := s.settings.Lookup("indexHints")
	if hints.Type != bson.TypeArray {
		return
	}
	for v := range hints.Doc().Values() {
		ns := v.Doc().Lookup("ns").Doc()
		f := &plancache.Filter{}
		p := &exec.Preferred{Allows: f.Allows, Settings: s.settings}
		for ix := range v.Doc().Lookup("allowedIndexes").Doc().Values() {
			switch {
			case ix.Type == bson.TypeString && ix.Str() == "$natural":
				p.Scans = true
			case ix.Type == bson.TypeString:
				f.Names = append(f.Names, ix.Str())
			case ix.Doc().Has("$natural"):
				p.Scans = true
			default:
				f.Keys = append(f.Keys, ix.Doc())
			}
		}
		s.hints[schema.Namespace{DB: ns.Lookup("db").Str(), Coll: ns.Lookup("coll").Str()}] = p
	}
}

// preferred returns what the settings say of the reading of a collection, nil for nothing. s
// may be nil.
func (s *querySetting) preferred(ns schema.Namespace) *exec.Preferred {
	if s == nil {
		return nil
	}
	if p := s.hints[ns]; p != nil {
		return p
	}
	return &exec.Preferred{Settings: s.settings}
}

// of returns the settings of the shape of a query; nil for none.
func (x *QuerySettings) of(db string, query bson.Doc) *querySetting {
	if x == nil || query == nil {
		return nil
	}
	_, coll := query.First()
	if coll.Type != bson.TypeString {
		return nil
	}
	shapes := x.by[schema.Namespace{DB: db, Coll: coll.Str()}]
	if shapes == nil {
		return nil
	}
	return shapes[QueryShapeHash(db, query)]
}

// Of returns what is set for the shape of a query, {indexHints, …}; nil for nothing. Errors: 411
// for one that is to be rejected.
func (x *QuerySettings) Of(db string, query bson.Doc) (bson.Doc, error) {
	s := x.of(db, query)
	if s == nil {
		return nil, nil
	}
	return s.settings, s.rejects()
}

// rejects returns error 411 if the settings say so. s may be nil.
func (s *querySetting) rejects() error {
	if s != nil && s.settings.Lookup("reject").Truthy() {
		return mongoerr.New(mongoerr.QueryRejectedBySettings, "Query rejected by admin query settings")
	}
	return nil
}

// SettingsField is the field of a find, an aggregate and a distinct in which a router tells
// shards the settings of its client's query: it knows the shape, which they see changed.
const SettingsField = querySettingsName

// CheckSettingsField refuses that field of any other client. Errors: 40415.
func CheckSettingsField(op *command.Op) error {
	if !op.Args.Has(SettingsField) || isRouters(op) {
		return nil
	}
	return mongoerr.New(mongoerr.IDLUnknownField, "BSON field '%s.%s' is an unknown field.", op.Name, SettingsField)
}

// isRouters reports whether a router has sent op's query.
func isRouters(op *command.Op) bool {
	return op.Generic.Versions != nil || op.Client != nil && op.Client.Internal
}

// settingsOf returns the settings of op's query, of its shape or as a router says; nil for
// none.
func (n *Node) settingsOf(op *command.Op) *querySetting {
	if !isRouters(op) {
		return n.settings.Load().of(op.DB, op.Body)
	}
	v := op.Body.Lookup(SettingsField)
	if v.Type != bson.TypeDocument {
		return nil
	}
	s := &querySetting{settings: v.Doc()}
	s.readHints()
	return s
}

// rejected returns error 411 for a query whose settings say that it is to be rejected.
func (n *Node) rejected(op *command.Op) error {
	if err := CheckSettingsField(op); err != nil {
		return err
	}
	if isRouters(op) { // which has decided
		return nil
	}
	return n.settingsOf(op).rejects()
}

// listQuerySettings answers {$querySettings: {showDebugQueryShape}}. (Manual:
// $querySettings.)
func (n *Node) listQuerySettings(arg bson.Doc) (pipeline.Iterator, error) {
	l := &pipeline.List{}
	x := n.settings.Load()
	if x == nil {
		return l, nil
	}
	for _, s := range x.all {
		b := new(bson.Builder).String("queryShapeHash", s.hash)
		if arg.Lookup("showDebugQueryShape").Truthy() {
			b.Doc("debugQueryShape", debugQueryShape(s.query.Lookup("$db").Str(), s.query))
		}
		l.Docs = append(l.Docs, b.Doc("settings", s.settings).Doc("representativeQuery", s.query).Finish())
	}
	return l, nil
}

// isSystemStage reports whether a pipeline begins with a stage about the server, which no
// settings may reject: they could not be removed then.
func isSystemStage(name string) bool {
	return strings.HasPrefix(name, "$list") || name == "$querySettings" || name == "$currentOp" || name == "$planCacheStats" || name == "$collStats" ||
		name == "$indexStats" || name == "$queryStats" || name == "$changeStream" || name == "$expiryStats" || name == "$archive" || name == "$shardedDataDistribution"
}
