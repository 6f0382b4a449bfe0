package auth

import (
	"crypto/sha256"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
)

// MemberName is the user as whom members of a cluster log in at each other, with the key
// that they share for a password. (mongod: internalSecurity.)
var MemberName = UserName{User: "__system", DB: "local"}

// memberIterations is how often the key is hashed. Nobody guesses a key that was made
// at random.
const memberIterations = 15_000

// Member is the user MemberName, whose password the key is; "" for one who has none, and logs
// in with a certificate.
func Member(key string) *User {
	roles := []RoleName{{"__system", "admin"}}
	if key == "" {
		sum := sha256.Sum256(nil)
		return &User{Name: MemberName, ID: bson.Binary(0, sum[:]), Roles: roles}
	}
	c, err := Password{User: MemberName.User, Text: key, Iterations: func(string) int { return memberIterations }}.Credentials()
	if err != nil {
		invariant.Failf("the key of a cluster is no password: %v", err) // it is base64
	}
	sum := sha256.Sum256([]byte(key))
	return &User{Name: MemberName, ID: bson.Binary(0, sum[:]), Credentials: c, Roles: roles}
}
