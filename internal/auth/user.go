package auth

import (
	"bytes"
	"crypto/sha256"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// External is the database of users whose passwords another system has.
const External = "$external"

// UserName names a user, and the database that it authenticates on.
type UserName struct{ User, DB string }

// String is "user@db".
func (u UserName) String() string { return u.User + "@" + u.DB }

// ID is the user's _id in admin.system.users.
func (u UserName) ID() string { return u.DB + "." + u.User }

// Digest is what tells the user's sessions from other users'. (Driver Sessions
// Specification: uid.)
func (u UserName) Digest() [32]byte { return sha256.Sum256([]byte(u.String())) }

// Write appends the fields user and db.
func (u UserName) Write(b *bson.Builder) { b.String("user", u.User).String("db", u.DB) }

// User is what admin.system.users has of a user.
type User struct {
	Name        UserName
	ID          bson.Value // userId, the same as long as the user lives
	Credentials bson.Doc   // by mechanism
	Second      bson.Doc   // others that are as good, with the same salts; nil for none
	Roles       []RoleName
	Restricted  []bson.Doc // its own authentication restrictions and, once resolved, those of its roles
}

// ParseUser reads a document of admin.system.users. Errors: code 12 if it is
// none.
func ParseUser(d bson.Doc) (*User, error) {
	u := &User{
		Name: UserName{text(d.Lookup("user")), text(d.Lookup("db"))},
		ID:   d.Lookup("userId"), Roles: ParseRoles(d.Lookup("roles").Doc().Slice(), ""),
	}
	credentials := d.Lookup("credentials")
	if u.Name.User == "" || u.Name.DB == "" || credentials.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.UnsupportedFormat, "User document needs 'user', 'db' and 'credentials' fields, found: %s", d.Lookup("_id"))
	}
	u.Credentials = credentials.Doc()
	if v := d.Lookup("authenticationRestrictions"); v.Type == bson.TypeArray && !v.Doc().IsEmpty() {
		u.Restricted = append(u.Restricted, v.Doc())
	}
	return u, nil
}

// SameAs reports whether both are one user, and not two that had the name one after
// the other.
func (u *User) SameAs(v *User) bool {
	return u.ID.Type == v.ID.Type && bytes.Equal(u.ID.Data, v.ID.Data)
}

// Mechanisms are those that the user has credentials for, the strongest first.
func (u *User) Mechanisms() []string {
	var names []string
	for _, m := range mechanisms {
		if u.Credentials.Has(m.name) {
			names = append(names, m.name)
		}
	}
	return names
}
