package account

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Where users and roles are kept.
var (
	usersNamespace = schema.Namespace{DB: "admin", Coll: "system.users"}
	rolesNamespace = schema.Namespace{DB: "admin", Coll: "system.roles"}
	// versionNamespace has a document with their schema version.
	versionNamespace = schema.Namespace{DB: "admin", Coll: "system.version"}
)

const (
	authSchemaID      = "authSchema"
	authSchemaVersion = 5
)

// Options are what a Store works with.
type Options struct {
	Catalog *catalog.Catalog // nil if there is no data: then there are no users of its own
	Source  Source           // where a server without data has its users from; nil for nowhere
	// Keys are what the members of a cluster share; nil for nothing. Who knows one may log
	// in as one of them.
	Keys []string
	// ByCertificate says that members may log in with their certificates.
	ByCertificate bool
	Log           *slog.Logger
	Params        *command.Params
}

// Store holds the users and roles of a server. Make one with New.
type Store struct {
	catalog *catalog.Catalog
	source  Source
	member  *auth.User // as which members of the cluster log in; nil for nobody
	// byCertificate says that they may with a certificate.
	byCertificate bool
	log           *slog.Logger
	failures      auth.Failures
	passwords     passwords

	// scramSHA1 and scramSHA256 are how often passwords are hashed.
	scramSHA1, scramSHA256 *command.IntParam
	// localhostBypass lets a client on this machine create the first user.
	localhostBypass *command.BoolParam

	mu sync.Mutex // held while users and roles are changed
	// generation counts changes: a principal of an older one is resolved again.
	generation atomic.Uint64
}

// New makes a Store, and registers its parameters.
func New(o Options) *Store {
	p := o.Params
	p.Fixed("authSchemaVersion", false, func() bson.Value { return bson.Int32(authSchemaVersion) })
	s := &Store{
		catalog: o.Catalog, source: o.Source, log: o.Log,
		localhostBypass: p.Bool(command.BoolSpec{Name: "enableLocalhostAuthBypass", Default: true, Startup: true}),
		scramSHA1:       p.Int(command.IntSpec{Name: "scramIterationCount", Default: 10_000, Min: 5_000, HasMin: true}),
		scramSHA256:     p.Int(command.IntSpec{Name: "scramSHA256IterationCount", Default: 15_000, Min: 5_000, HasMin: true}),
	}
	if s.byCertificate = o.ByCertificate; len(o.Keys) > 0 || o.ByCertificate {
		s.member = auth.Member(o.Keys)
	}
	return s
}

// Commands returns the commands about users, roles and authentication.
func (s *Store) Commands() []*command.Command {
	return []*command.Command{
		s.authenticate(), s.saslStart(), s.saslContinue(), s.logout(), s.invalidateUserCache(), s.getUserCacheGeneration(), s.mergeAuthzCollections(),
		s.createUser(), s.updateUser(), s.dropUser(), s.dropAllUsersFromDatabase(), s.grantRolesToUser(), s.revokeRolesFromUser(), s.usersInfo(),
		s.createRole(), s.updateRole(), s.dropRole(), s.dropAllRolesFromDatabase(), s.grantPrivilegesToRole(), s.revokePrivilegesFromRole(),
		s.grantRolesToRole(), s.revokeRolesFromRole(), s.rolesInfo(),
	}
}

// iterations returns how often a mechanism hashes passwords that are set from
// now on.
func (s *Store) iterations(mechanism string) int {
	if mechanism == auth.ScramSHA1 {
		return int(s.scramSHA1.Load())
	}
	return int(s.scramSHA256.Load())
}

// kept returns the document of a user or a role, or nil.
func (s *Store) kept(ns schema.Namespace, id string) (bson.Doc, error) {
	if s.catalog == nil {
		return nil, nil
	}
	return s.catalog.Kept(ns, bson.String(id))
}

// accountsOf returns the documents of users or roles, in order of their _id,
// all or those of one database.
func (s *Store) accountsOf(ns schema.Namespace, db string) (docs []bson.Doc, err error) {
	if s.catalog == nil {
		return nil, nil
	}
	c := s.catalog.Lookup(ns)
	if c == nil {
		return nil, nil
	}
	it, err := s.catalog.Engine().NewIter(c.Ident, nil, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.Value()
		if err != nil {
			return nil, err
		}
		if d := bson.Doc(v); db == "" || d.Lookup("db").Type == bson.TypeString && d.Lookup("db").Str() == db {
			docs = append(docs, d.Clone())
		}
	}
	return docs, nil
}

// role implements auth.RoleStore.
func (s *Store) role(r auth.RoleName) (bson.Doc, error) { return s.kept(rolesNamespace, r.ID()) }

// user returns a user, or error 11 if there is none.
func (s *Store) user(u auth.UserName) (bson.Doc, error) {
	d, err := s.kept(usersNamespace, u.ID())
	if err == nil && d == nil {
		err = mongoerr.New(mongoerr.UserNotFound, "Could not find user \"%s\" for db \"%s\"", u.User, u.DB)
	}
	return d, err
}
