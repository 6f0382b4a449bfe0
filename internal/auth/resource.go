package auth

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// bucketsPrefix begins the names of the collections that hold the buckets of
// time series.
const bucketsPrefix = "system.buckets."

// form says what a Resource stands for.
type form uint8

const (
	formCluster form = iota
	formAny
	formNormal     // every collection but system collections, outside of local and config
	formDatabase   // a database and its collections but system collections
	formCollection // the collections of a name in every database
	formNamespace
	formBuckets // as formNormal to formNamespace, for buckets of time series
	formBucketsDatabase
	formBucketsCollection
	formBucketsNamespace
)

// Resource is what a privilege is about, or what a command needs it for.
// (Manual: Resource Document.) Resources are comparable.
type Resource struct {
	form     form
	db, coll string
}

// Cluster is the resource of actions on the server as a whole.
var Cluster = Resource{form: formCluster}

// Database is a database, as what a command needs.
func Database(db string) Resource { return Resource{form: formDatabase, db: db} }

// Namespace is one collection.
func Namespace(db, coll string) Resource { return Resource{form: formNamespace, db: db, coll: coll} }

// AnyNormal is every collection that is no system collection.
var AnyNormal = Resource{form: formNormal}

// resourceOf is the resource {db, collection} with "" for any.
func resourceOf(db, coll string) Resource {
	switch {
	case db == "" && coll == "":
		return Resource{form: formNormal}
	case coll == "":
		return Resource{form: formDatabase, db: db}
	case db == "":
		return Resource{form: formCollection, coll: coll}
	}
	return Namespace(db, coll)
}

// bucketsOf is the resource {db, system_buckets} with "" for any.
func bucketsOf(db, coll string) Resource {
	r := resourceOf(db, coll)
	r.form += formBuckets - formNormal
	return r
}

// database is the one database that the resource lies in, or "".
func (r Resource) database() string {
	if r.form == formDatabase || r.form == formNamespace {
		return r.db
	}
	return ""
}

// normal reports whether the target is covered by grants on what is not a system
// collection.
func (r Resource) normal() bool {
	return r.form == formDatabase || r.form == formNamespace && !strings.HasPrefix(r.coll, "system.")
}

// covers lists the resources of which a privilege covers the target r, r itself
// among them.
func (r Resource) covers() []Resource {
	all := []Resource{r, {form: formAny}}
	if r.form != formDatabase && r.form != formNamespace {
		return all
	}
	if r.normal() {
		if r.db != "local" && r.db != "config" {
			all = append(all, Resource{form: formNormal})
		}
		all = append(all, Database(r.db))
	}
	if r.form == formDatabase {
		return all
	}
	all = append(all, Resource{form: formCollection, coll: r.coll})
	if series, ok := strings.CutPrefix(r.coll, bucketsPrefix); ok {
		all = append(all, bucketsOf(r.db, series), bucketsOf(r.db, ""), bucketsOf("", series), bucketsOf("", ""))
	}
	return all
}

// write appends the resource as the document "resource".
func (r Resource) write(b *bson.Builder) {
	b.OpenDoc("resource")
	switch {
	case r.form == formCluster:
		b.Bool("cluster", true)
	case r.form == formAny:
		b.Bool("anyResource", true)
	case r.form >= formBuckets:
		b.String("db", r.db).String("system_buckets", r.coll)
	default:
		b.String("db", r.db).String("collection", r.coll)
	}
	b.Close()
}

// parseResource reads a resource document. Errors: code 2 if its fields do
// not go together, 14 for values of another type.
func parseResource(d bson.Doc) (Resource, error) {
	db, coll, buckets := d.Lookup("db"), d.Lookup("collection"), d.Lookup("system_buckets")
	for _, whole := range []struct {
		name string
		form form
	}{{"cluster", formCluster}, {"anyResource", formAny}} {
		v := d.Lookup(whole.name)
		if v.IsMissing() || v.Type == bson.TypeNull {
			continue
		}
		for _, other := range []string{"anyResource", "db", "collection", "system_buckets"} {
			if other != whole.name && d.Has(other) {
				return Resource{}, mongoerr.New(mongoerr.BadValue, "resource: {%s: true} conflicts with resource type '%s'", whole.name, other)
			}
		}
		if !v.Truthy() {
			return Resource{}, mongoerr.New(mongoerr.BadValue, "resource: {%s: false} must be true when specified", whole.name)
		}
		return Resource{form: whole.form}, nil
	}
	switch {
	case !coll.IsMissing() && !buckets.IsMissing():
		return Resource{}, mongoerr.New(mongoerr.BadValue, "resource: {collection: '...'} conflicts with resource type 'system_buckets'")
	case !buckets.IsMissing():
		return bucketsOf(text(db), text(buckets)), nil
	case coll.IsMissing() && !db.IsMissing():
		return Resource{}, mongoerr.New(mongoerr.BadValue, "resource pattern must contain 'collection' or 'systemBuckets' specifier")
	case db.IsMissing() && !coll.IsMissing():
		return Resource{}, mongoerr.New(mongoerr.BadValue, "resource pattern must contain 'db' specifier")
	case db.IsMissing():
		return Resource{}, mongoerr.New(mongoerr.BadValue, "resource pattern must contain 'collection' or 'systemBuckets' specifier")
	}
	return resourceOf(text(db), text(coll)), nil
}

// text is a string's content; "" for other values.
func text(v bson.Value) string {
	if v.Type != bson.TypeString {
		return ""
	}
	return v.Str()
}
