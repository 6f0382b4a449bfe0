package cosmos

import (
	"crypto/rand"
	"encoding/binary"
	"net/http"

	"github.com/mayflydb/mayfly/internal/bson"
)

// permission allows a user to read, or to read and write, a resource and its
// descendants, or one partition of a container. (Cosmos DB: "Permissions".)
type permission struct {
	id, mode, resource, rid, etag string
	key                           bson.Value // resourcePartitionKey, or Missing
	seconds                       int64      // _ts
}

func (p *permission) stored() bson.Doc {
	var b bson.Builder
	b.String("id", p.id).String("mode", p.mode).String("resource", p.resource).String("rid", p.rid).String("etag", p.etag).Int64("ts", p.seconds)
	return b.Value("key", p.key).Finish()
}

func loadPermission(d bson.Doc) *permission {
	return &permission{
		id: d.Lookup("id").Str(), mode: d.Lookup("mode").Str(), resource: d.Lookup("resource").Str(), rid: d.Lookup("rid").Str(),
		etag: d.Lookup("etag").Str(), key: d.Lookup("key"), seconds: d.Lookup("ts").Int64(),
	}
}

// readPermission reads a permission's definition into p. Errors: 400, also for a resource of
// another database than the user's.
func (r *request) readPermission(p *permission, body bson.Doc) error {
	var err error
	if p.id, err = newID(body); err != nil {
		return err
	}
	mode, resource := body.Lookup("permissionMode"), body.Lookup("resource")
	if mode.Type != bson.TypeString || mode.Str() != permissionRead && mode.Str() != permissionAll {
		return badRequest("The permissionMode is invalid: it must be 'Read' or 'All'.")
	}
	if resource.Type != bson.TypeString || resource.Str() == "" {
		return badRequest("The input content is invalid because the required properties - 'resource; ' - are missing")
	}
	if !r.ofDatabase(resource.Str()) {
		return badRequest("The resource '%s' is not in the database of the user.", resource.Str())
	}
	p.mode, p.resource, p.key = mode.Str(), resource.Str(), body.Lookup("resourcePartitionKey").Clone()
	if !p.key.IsMissing() && !isPartitionKey(p.key) {
		return badRequest("The resourcePartitionKey is invalid: it must be an array of the partition key's values.")
	}
	return nil
}

// isPartitionKey reports whether v is a partition key as resources have it: an array of one to
// three strings, numbers, bools and nulls, or {} for none. Anything else would restrict a token
// to no partition that there is, or to none at all.
func isPartitionKey(v bson.Value) bool {
	if v.Type != bson.TypeArray || v.Doc().IsEmpty() {
		return false
	}
	values := v.Doc().Slice()
	for _, e := range values {
		scalar := e.Type == bson.TypeString || e.Type == bson.TypeBool || e.Type == bson.TypeNull || e.IsNumber()
		if !scalar && !(e.Type == bson.TypeDocument && e.Doc().IsEmpty()) {
			return false
		}
	}
	return len(values) <= maxKeyPaths
}

// permissionDoc returns the resource for clients, with a new token.
func (r *request) permissionDoc(u *user, p *permission) (bson.Doc, error) {
	token, err := r.newToken(p)
	if err != nil {
		return nil, err
	}
	var b bson.Builder
	b.String("permissionMode", p.mode).String("resource", p.resource).Value("resourcePartitionKey", p.key).String("id", p.id).String("_rid", p.rid)
	b.String("_self", u.self()+"permissions/"+p.rid+"/").String("_etag", p.etag).String("_token", token)
	return b.Int64("_ts", p.seconds).Finish(), nil
}

func (r *request) permissionDocs(u *user) ([]bson.Doc, error) {
	var docs []bson.Doc
	for _, p := range u.permissions {
		d, err := r.permissionDoc(u, p)
		if err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	return docs, nil
}

// permission returns the permission that the path names, with its index. Errors: 404.
func (r *request) permission() (*user, int, error) {
	u, err := r.user()
	if err != nil {
		return nil, 0, err
	}
	for i, p := range u.permissions {
		if p.id == r.path.permission {
			return u, i, nil
		}
	}
	return nil, 0, errNotFound
}

// permissionToChange is permission for a request that changes it; the caller
// holds the registry's changes. Errors: 404, 412.
func (r *request) permissionToChange() (*user, int, error) {
	u, i, err := r.permission()
	if err != nil {
		return nil, 0, err
	}
	return u, i, r.ifMatch(u.permissions[i].etag)
}

func (r *request) listPermissions() error {
	u, err := r.user()
	if err != nil {
		return err
	}
	docs, err := r.permissionDocs(u)
	if err != nil {
		return err
	}
	return r.sendFeed(u.rid, "Permissions", docs)
}

// postPermissions creates or upserts a permission, or queries them.
func (r *request) postPermissions(body bson.Doc) error {
	u, err := r.user()
	if err != nil {
		return err
	}
	if r.isQuery() {
		docs, err := r.permissionDocs(u)
		if err != nil {
			return err
		}
		return r.queryResources(body, u.rid, "Permissions", docs)
	}
	p := &permission{}
	if err := r.readPermission(p, body); err != nil {
		return err
	}
	for i, old := range u.permissions {
		if old.id != p.id {
			continue
		}
		if !r.flag("X-Ms-Documentdb-Is-Upsert") {
			return errConflict
		}
		if err := r.ifMatch(old.etag); err != nil {
			return err
		}
		p.rid = old.rid
		return r.storePermission(http.StatusOK, u, i, p)
	}
	if len(u.permissions) >= maxUsers {
		return badRequest("The user has %d permissions already.", maxUsers)
	}
	var b [8]byte
	rand.Read(b[:])
	p.rid = itemRID(decodeRID(u.rid), int64(binary.LittleEndian.Uint64(b[:])>>1))
	u.permissions = append(u.permissions, nil)
	return r.storePermission(http.StatusCreated, u, len(u.permissions)-1, p)
}

// storePermission stores p as the i-th permission of a user, and sends it.
func (r *request) storePermission(status int, u *user, i int, p *permission) error {
	p.etag, p.seconds = newETag(r.written), r.written
	u.permissions[i] = p
	if err := r.s.registry.put(r.Context(), usersNamespace, u.stored()); err != nil {
		return err
	}
	d, err := r.permissionDoc(u, p)
	if err != nil {
		return err
	}
	r.charge = chargeDefinition
	return r.resource(status, d)
}

func (r *request) getPermission() error {
	u, i, err := r.permission()
	if err != nil {
		return err
	}
	d, err := r.permissionDoc(u, u.permissions[i])
	if err != nil {
		return err
	}
	return r.resource(http.StatusOK, d)
}

func (r *request) putPermission(body bson.Doc) error {
	u, i, err := r.permissionToChange()
	if err != nil {
		return err
	}
	p := &permission{rid: u.permissions[i].rid}
	if err := r.readPermission(p, body); err != nil {
		return err
	}
	for j, other := range u.permissions {
		if j != i && other.id == p.id {
			return errConflict
		}
	}
	return r.storePermission(http.StatusOK, u, i, p)
}

func (r *request) deletePermission() error {
	g := r.s.registry
	leave, err := r.defining()
	if err != nil {
		return err
	}
	defer leave()
	u, i, err := r.permissionToChange()
	if err != nil {
		return err
	}
	u.permissions = append(u.permissions[:i:i], u.permissions[i+1:]...)
	if err := g.put(r.Context(), usersNamespace, u.stored()); err != nil {
		return err
	}
	r.charge = chargeDefinition
	return r.send(http.StatusNoContent)
}
