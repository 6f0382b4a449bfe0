package cosmos

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// The modes of permissions.
const (
	permissionRead = "Read"
	permissionAll  = "All"
)

// The lifetime of a resource token, in seconds, as the service bounds it.
const (
	tokenLife    = 3600
	minTokenLife = 10
	maxTokenLife = 86400
)

var errForbidden = newError(http.StatusForbidden, "Insufficient permissions provided in the authorization header for the corresponding request. Please retry with another authorization header.")

// newToken makes a token that proves a permission for as long as the request
// asks for. Errors: 400.
func (r *request) newToken(p *permission) (string, error) {
	life := int64(tokenLife)
	if h := r.header("X-Ms-Documentdb-Expiry-Seconds"); h != "" {
		n, err := strconv.ParseInt(h, 10, 64)
		if err != nil || n < minTokenLife || n > maxTokenLife {
			return "", badRequest("The value '%s' of x-ms-documentdb-expiry-seconds is invalid: it must be between %d and %d.", h, minTokenLife, maxTokenLife)
		}
		life = n
	}
	var b bson.Builder
	b.String("r", p.resource).String("i", r.s.registry.identity(p.resource)).String("m", p.mode).Value("k", p.key).Int64("e", r.expiryTime+life)
	claim := base64.StdEncoding.EncodeToString(nosql.AppendJSONDocument(nil, b.Finish()))
	proof := base64.StdEncoding.EncodeToString(proof(r.signsTokens(), claim))
	return "type=resource&ver=1.0&sig=" + proof + ";" + claim + ";", nil
}

// tokenPurpose is what the account's key signs to make the key of resource tokens.
const tokenPurpose = "resource token\n"

// proofWith signs a text with the account's key.
func (s *Server) proofWith(text string) []byte {
	h := s.signers.Get().(*signer)
	defer s.signers.Put(h)
	h.Reset()
	h.Write([]byte(text)) // never fails
	return h.Sum(nil)
}

// proof signs the claims of a token.
func proof(key []byte, claim string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(claim)) // never fails
	return h.Sum(nil)
}

// signsTokens returns the key of resource tokens: a config server gets it from the router.
func (r *request) signsTokens() []byte {
	if r.cluster != nil {
		return r.cluster.tokenKey
	}
	return r.s.tokenKey
}

// checkResourceToken checks a token of newToken. Errors: 401 if it is invalid, 403 if
// it has expired or does not allow the request.
func (r *request) checkResourceToken(signature string) error {
	c, err := r.claims(signature)
	if err != nil {
		return err
	}
	issued := c.Lookup("i")
	if expires, _ := bson.ExactInt64(c.Lookup("e")); r.expiryTime >= expires || issued.Type != bson.TypeString { // or from before there were ids in tokens
		return errDate
	}
	if r.path.kind == kindAccount {
		return nil
	}
	if !r.within(c.Lookup("r").Str()) || c.Lookup("m").Str() != permissionAll && !r.onlyReads() {
		return errForbidden
	}
	of := issued.Str()
	r.tokenOf = &of
	if err := r.checkIdentity(); err != nil {
		return err
	}
	r.partition = c.Lookup("k")
	switch r.path.kind {
	case kindItem, kindItems, kindPartitionDelete:
		return r.checkPartition(r.header("X-Ms-Documentdb-Partitionkey"))
	case kindUsers, kindUser, kindPermissions, kindPermission: // of others
		return errForbidden
	}
	if !r.partition.IsMissing() && !r.onlyReads() {
		return errForbidden // the container is more than a partition of it
	}
	return nil
}

// identity is the resource id of the container that a link names or is within, of the database
// where it names that; "" if there is none.
func (g *registry) identity(resource string) string {
	p, _, ok := readLink(resource)
	if !ok {
		return ""
	}
	g.resolve(&p)
	d, err := g.database(p.db)
	switch {
	case err != nil:
		return ""
	case p.container == "":
		return d.rid
	}
	c, err := g.container(p.db, p.container)
	if err != nil {
		return ""
	}
	return c.rid
}

// checkIdentity checks that the request's token was made for what has the name now. Errors: 403.
func (r *request) checkIdentity() error {
	if r.path.container != "" {
		if r.path.kind == kindContainer && r.s.o.Cluster != nil {
			r.s.known.forget(r.path.db, r.path.container) // as the definition is not looked at again here
		}
		_, err := r.findContainer()
		if err == errNotFound {
			return nil // the request says so
		}
		return err
	}
	if r.s.o.Cluster == nil {
		d, err := r.database()
		if err != nil {
			return nil // the request says so
		}
		return r.mayUse(d.rid)
	}
	found, err := r.s.o.Cluster.ReadConfig(r.ctx, databasesNamespace.Coll, new(bson.Builder).String("_id", r.path.db).Finish())
	if err != nil || len(found) == 0 {
		return err
	}
	return r.mayUse(found[0].Lookup("rid").Str())
}

// mayUse checks that the request's token, if it has one, is for the container or database with a
// resource id, or for the database that a container is in: another one may have its name by now.
// Errors: 403.
func (r *request) mayUse(rid string) error {
	if r.tokenOf == nil {
		return nil
	}
	if of := decodeRID(*r.tokenOf); len(of) == 0 || !bytes.HasPrefix(decodeRID(rid), of) {
		return errForbidden
	}
	return nil
}

// claims returns what a token of newToken says. Errors: 401 if this account did not make it.
func (r *request) claims(signature string) (bson.Doc, error) {
	proved, claim, _ := strings.Cut(strings.TrimSuffix(signature, ";"), ";")
	given, err := base64.StdEncoding.DecodeString(proved)
	if err != nil || !hmac.Equal(given, proof(r.s.tokenKey, claim)) {
		return nil, errSignature
	}
	text, err := base64.StdEncoding.DecodeString(claim)
	if err != nil {
		return nil, errSignature
	}
	c, err := parseObject(text)
	if err != nil {
		return nil, errSignature
	}
	return c, nil
}

// onlyReads reports whether the request changes nothing. A POST may be a query, if its
// handler accepts one.
func (r *request) onlyReads() bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return true
	case http.MethodPost:
		return r.isQuery() && r.path.kind != kindPartitionDelete && !(r.path.kind == kindItems && r.isBatch())
	}
	return false
}

// checkPartition checks a partition key, as JSON, against that of the request's token.
// Errors: 403.
func (r *request) checkPartition(key string) error {
	if r.partition.IsMissing() {
		return nil
	}
	asked, err := nosql.ParseJSON([]byte(key))
	if err != nil || asked.Type != bson.TypeArray || r.partition.Type != bson.TypeArray {
		return errForbidden
	}
	// A prefix of a hierarchical key stands for all below it.
	keys, prefix := asked.Doc().Slice(), r.partition.Doc().Slice()
	if len(prefix) == 0 || len(keys) < len(prefix) || !sameKey(keys[:len(prefix)], prefix) {
		return errForbidden
	}
	return nil
}

// How many parts the link of a database, a container and an item has.
const (
	databaseLink  = 2
	containerLink = 4
	itemLink      = 6
)

// readLink splits the link of a resource, by names or by resource ids; ok says that it is one.
func readLink(resource string) (p path, parts int, ok bool) {
	names := strings.SplitN(strings.Trim(resource, "/"), "/", itemLink)
	for i, name := range []string{"dbs", "", "colls", "", "docs", ""}[:len(names)] {
		if name != "" && names[i] != name {
			return p, 0, false
		}
	}
	for i, into := range []*string{&p.db, &p.container, &p.item} {
		if len(names) >= 2*(i+1) {
			*into = names[2*i+1]
		}
	}
	return p, len(names), len(names)%2 == 0
}

// ofDatabase reports whether a resource is the database that the path names, or in it.
func (r *request) ofDatabase(resource string) bool {
	parts := strings.Split(strings.Trim(resource, "/"), "/")
	if len(parts) < 2 || parts[0] != "dbs" {
		return false
	}
	p := path{db: parts[1]}
	return r.s.resolve(r.ctx, &p) == nil && p.db == r.path.db
}

// within reports whether the path is that of a resource, or below it. Both may use
// names or resource ids, which are looked up: the resource id of one item may be the id
// of another.
func (r *request) within(resource string) bool {
	p, parts, ok := readLink(resource)
	if !ok || r.s.resolve(r.ctx, &p) != nil {
		return false
	}
	switch {
	case p.db != r.path.db:
		return false
	case parts == databaseLink:
		return true
	case p.container != r.path.container:
		return false
	case parts == containerLink:
		return true
	case r.path.kind != kindItem:
		return false
	}
	return r.sameItem(p)
}

// sameItem reports whether p, of the same container, names the same item as the
// request's path.
func (r *request) sameItem(p path) bool {
	if p.byRID == r.path.byRID {
		return p.item == r.path.item
	}
	c, err := r.container()
	if err != nil {
		return false
	}
	if r.path.byRID {
		id, err := r.itemByRID(c, r.path.item)
		return err == nil && id.Lookup("i").Str() == p.item
	}
	id, err := r.itemByRID(c, p.item)
	if err != nil || id.Lookup("i").Str() != r.path.item {
		return false
	}
	key, err := r.keyHeader(c.key)
	return err == nil && sameKey(key, id.Lookup("p").Doc().Slice())
}
