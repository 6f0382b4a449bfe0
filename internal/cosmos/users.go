package cosmos

import (
	"crypto/rand"
	"net/http"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// usersNamespace has the users of all databases, each with its permissions.
var usersNamespace = schema.Namespace{DB: "config", Coll: "cosmos.users"}

// maxUsers bounds the users of a database, and the permissions of a user.
const maxUsers = 1000

// user is a user of a database, to whom permissions are given.
// (Cosmos DB: "Users".)
type user struct {
	db, id, rid, etag string
	seconds           int64 // _ts
	permissions       []*permission
}

func userID(db, id string) bson.Value {
	return bson.Document(new(bson.Builder).String("d", db).String("u", id).Finish())
}

func (u *user) self() string {
	return "dbs/" + encodeRID(decodeRID(u.rid)[:4]) + "/users/" + u.rid + "/"
}

// doc returns the resource for clients.
func (u *user) doc() bson.Doc {
	var b bson.Builder
	b.String("id", u.id).String("_rid", u.rid).String("_self", u.self()).String("_etag", u.etag)
	return b.String("_permissions", "permissions/").Int64("_ts", u.seconds).Finish()
}

func (u *user) stored() bson.Doc {
	var b bson.Builder
	b.Value("_id", userID(u.db, u.id)).String("rid", u.rid).String("etag", u.etag).Int64("ts", u.seconds).OpenArray("permissions")
	for i, p := range u.permissions {
		b.Doc(bson.Index(i), p.stored())
	}
	return b.Finish()
}

func loadUser(d bson.Doc) *user {
	id := d.Lookup("_id").Doc()
	u := &user{db: id.Lookup("d").Str(), id: id.Lookup("u").Str(), rid: d.Lookup("rid").Str(), etag: d.Lookup("etag").Str(), seconds: d.Lookup("ts").Int64()}
	for v := range d.Lookup("permissions").Doc().Values() {
		u.permissions = append(u.permissions, loadPermission(v.Doc()))
	}
	return u
}

// users reads the users of the database that the path names. Errors: 404 for
// the database.
func (r *request) users() (*database, []*user, error) {
	d, err := r.database()
	if err != nil {
		return nil, nil, err
	}
	var us []*user
	c := r.s.o.Catalog.Lookup(usersNamespace)
	if c == nil {
		return d, nil, nil
	}
	filter := new(bson.Builder).String("_id.d", d.id).Finish()
	_, err = r.find(c, filter, nil, 0, func(doc bson.Doc) (bool, error) {
		us = append(us, loadUser(doc.Clone()))
		return true, nil
	})
	return d, us, err
}

// user reads the user that the path names. Errors: 404.
func (r *request) user() (*user, error) {
	_, us, err := r.users()
	if err != nil {
		return nil, err
	}
	for _, u := range us {
		if u.id == r.path.user {
			return u, nil
		}
	}
	return nil, errNotFound
}

// userToChange is user for a request that changes it; the caller holds the
// registry's changes. Errors: 404, 412.
func (r *request) userToChange() (*user, error) {
	u, err := r.user()
	if err != nil {
		return nil, err
	}
	return u, r.ifMatch(u.etag)
}

func userDocs(us []*user) []bson.Doc {
	var docs []bson.Doc
	for _, u := range us {
		docs = append(docs, u.doc())
	}
	return docs
}

func (r *request) listUsers() error {
	d, us, err := r.users()
	if err != nil {
		return err
	}
	return r.sendFeed(d.rid, "Users", userDocs(us))
}

// newID returns the id of the resource that a body defines. Errors: 400.
func newID(body bson.Doc) (string, error) {
	v := body.Lookup("id")
	if v.Type != bson.TypeString {
		return "", checkID("")
	}
	return v.Str(), checkID(v.Str())
}

// postUsers creates or upserts a user, or queries them.
func (r *request) postUsers(body bson.Doc) error {
	d, us, err := r.users()
	if err != nil {
		return err
	}
	if r.isQuery() {
		return r.queryResources(body, d.rid, "Users", userDocs(us))
	}
	id, err := newID(body)
	if err != nil {
		return err
	}
	for _, u := range us {
		if u.id != id {
			continue
		}
		if !r.flag("X-Ms-Documentdb-Is-Upsert") {
			return errConflict
		}
		if err := r.ifMatch(u.etag); err != nil {
			return err
		}
		return r.storeUser(http.StatusOK, u, u.id)
	}
	if len(us) >= maxUsers {
		return badRequest("The database has %d users already.", maxUsers)
	}
	return r.storeUser(http.StatusCreated, &user{db: d.id, id: id, rid: newUserRID(d.rid)}, id)
}

// storeUser stores a user, whose id was another one before, maybe, with a new etag, and sends it.
func (r *request) storeUser(status int, u *user, was string) error {
	u.etag, u.seconds = newETag(r.written), r.written
	if err := r.s.registry.replace(r.Context(), usersNamespace, userID(u.db, was), u.stored()); err != nil {
		return err
	}
	r.charge = chargeDefinition
	return r.resource(status, u.doc())
}

// newUserRID returns a user's resource id: the database's, and one whose first bit
// distinguishes it from a container's.
func newUserRID(db string) string {
	b := append(decodeRID(db), 0, 0, 0, 0)
	rand.Read(b[4:])
	b[4] &= 0x7f
	return encodeRID(b)
}

func (r *request) getUser() error {
	u, err := r.user()
	if err != nil {
		return err
	}
	return r.resource(http.StatusOK, u.doc())
}

// putUser replaces a user, which may give it another id.
func (r *request) putUser(body bson.Doc) error {
	u, err := r.userToChange()
	if err != nil {
		return err
	}
	was := u.id
	id, err := newID(body)
	if err != nil {
		return err
	}
	if id != u.id {
		if _, us, err := r.users(); err != nil {
			return err
		} else if hasUser(us, id) {
			return errConflict
		}
		u.id = id
	}
	return r.storeUser(http.StatusOK, u, was)
}

func hasUser(us []*user, id string) bool {
	for _, u := range us {
		if u.id == id {
			return true
		}
	}
	return false
}

func (r *request) deleteUser() error {
	g := r.s.registry
	leave, err := r.defining()
	if err != nil {
		return err
	}
	defer leave()
	u, err := r.userToChange()
	if err != nil {
		return err
	}
	r.charge = chargeDefinition
	if err := g.remove(r.Context(), usersNamespace, userID(u.db, u.id)); err != nil {
		return err
	}
	return r.send(http.StatusNoContent)
}
