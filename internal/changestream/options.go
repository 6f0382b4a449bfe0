package changestream

import (
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Image says which documents an event brings along besides its own.
type Image uint8

// The values of fullDocument and of fullDocumentBeforeChange; Off is also "default".
const (
	Off Image = iota
	Lookup
	WhenAvailable
	Required
)

// Options are the argument of $changeStream. (Manual: "$changeStream (aggregation)".)
type Options struct {
	FullDocument, Before Image
	AllChanges, Expanded bool
	// ResumeAfter or StartAfter is the token behind which the stream begins, StartAt the
	// time at which it does; at most one of them is given.
	ResumeAfter, StartAfter *Token
	StartAt                 uint64
	HasStart                bool
}

// Resume returns the token behind which the stream begins; nil for none.
func (o *Options) Resume() *Token {
	if o.StartAfter != nil {
		return o.StartAfter
	}
	return o.ResumeAfter
}

var (
	fullDocuments = []string{"default", "updateLookup", "whenAvailable", "required"}
	imagesBefore  = []string{"off", "", "whenAvailable", "required"}
)

// ParseOptions reads the argument of $changeStream. Errors: 14, 2, 40415 and 40413 for the
// fields, 50865 and 40674 for several positions, those of ParseToken, 260 for a token
// of an invalidate that resumeAfter cannot pass.
func ParseOptions(arg bson.Doc) (*Options, error) {
	o := &Options{}
	seen := make(map[string]bool, len(options))
	for name, v := range arg.All() {
		parse, ok := options[name]
		if !ok {
			return nil, mongoerr.New(40415, "BSON field '$changeStream.%s' is an unknown field.", name)
		}
		if seen[name] {
			return nil, mongoerr.New(40413, "BSON field '$changeStream.%s' is a duplicate field", name)
		}
		seen[name] = true
		if v.Type == bson.TypeNull && parse.nullable {
			continue
		}
		if v.Type != parse.want {
			return nil, mongoerr.New(mongoerr.TypeMismatch, "BSON field '$changeStream.%s' is the wrong type '%s', expected type '%s'", name, v.Type, parse.want)
		}
		if err := parse.set(o, v); err != nil {
			return nil, err
		}
	}
	switch {
	case o.ResumeAfter != nil && o.StartAfter != nil:
		return nil, mongoerr.New(50865, "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage")
	case o.HasStart && o.Resume() != nil:
		return nil, mongoerr.New(40674, "Only one type of resume option is allowed, but multiple were found")
	case o.ResumeAfter != nil && o.ResumeAfter.FromInvalidate:
		return nil, mongoerr.New(mongoerr.InvalidResumeToken, "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate notification")
	}
	return o, nil
}

// option reads one field.
type option struct {
	want     bson.Type
	nullable bool // null is as if it were not there
	set      func(o *Options, v bson.Value) error
}

var options = map[string]option{
	"fullDocument": {bson.TypeString, true, func(o *Options, v bson.Value) (err error) {
		o.FullDocument, err = parseImage("fullDocument", v, fullDocuments)
		return err
	}},
	"fullDocumentBeforeChange": {bson.TypeString, true, func(o *Options, v bson.Value) (err error) {
		o.Before, err = parseImage("fullDocumentBeforeChange", v, imagesBefore)
		return err
	}},
	"resumeAfter": {bson.TypeDocument, true, func(o *Options, v bson.Value) (err error) {
		o.ResumeAfter, err = ParseToken(v.Doc())
		return err
	}},
	"startAfter": {bson.TypeDocument, true, func(o *Options, v bson.Value) (err error) {
		o.StartAfter, err = ParseToken(v.Doc())
		return err
	}},
	"startAtOperationTime": {bson.TypeTimestamp, true, func(o *Options, v bson.Value) error {
		o.StartAt, o.HasStart = v.Timestamp(), true
		return nil
	}},
	"allChangesForCluster": {bson.TypeBool, false, func(o *Options, v bson.Value) error { o.AllChanges = v.Bool(); return nil }},
	"showExpandedEvents":   {bson.TypeBool, false, func(o *Options, v bson.Value) error { o.Expanded = v.Bool(); return nil }},
}

func parseImage(name string, v bson.Value, names []string) (Image, error) {
	i := slices.Index(names, v.Str())
	if i < 0 || v.Str() == "" {
		return Off, mongoerr.New(mongoerr.BadValue, "Enumeration value '%s' for field '$changeStream.%s' is not a valid value.", v.Str(), name)
	}
	return Image(i), nil
}

// Scope is what a stream watches: a collection, a database where Coll is empty, or
// the whole cluster where DB is empty, too.
type Scope struct{ DB, Coll string }

// NewScope returns what a stream with some options watches that was opened on a
// namespace. Errors: 72, 73, and 260 for a token of no collection.
func NewScope(ns schema.Namespace, o *Options) (Scope, error) {
	switch {
	case o.AllChanges && (ns.DB != "admin" || ns.Coll != ""):
		return Scope{}, mongoerr.New(mongoerr.InvalidOptions,
			"A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, and with no collection name; found %s", ns)
	case ns.DB == "local" || ns.DB == "config" || ns.DB == "admin" && !o.AllChanges:
		return Scope{}, mongoerr.New(mongoerr.InvalidNamespace, "$changeStream may not be opened on the internal %s database", ns.DB)
	case strings.HasPrefix(ns.Coll, "system."):
		return Scope{}, mongoerr.New(mongoerr.InvalidNamespace, "$changeStream may not be opened on the internal %s collection", ns)
	case o.AllChanges:
		return Scope{}, nil
	}
	if t := o.Resume(); t != nil && t.Event && ns.Coll != "" && t.UUID == [16]byte{} {
		return Scope{}, mongoerr.New(mongoerr.InvalidResumeToken, "Attempted to resume a single-collection stream, but the resume token does not include a UUID")
	}
	return Scope{ns.DB, ns.Coll}, nil
}

// has reports whether a namespace is watched.
func (s Scope) has(ns schema.Namespace) bool {
	if s.Coll != "" {
		return ns.Coll == s.Coll && ns.DB == s.DB
	}
	if strings.HasPrefix(ns.Coll, "system.") {
		return false
	}
	return ns.DB == s.DB || s.DB == "" && ns.DB != "admin" && ns.DB != "config" && ns.DB != "local"
}
