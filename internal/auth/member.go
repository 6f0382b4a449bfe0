package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"strconv"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/invariant"
)

// MemberName is the user as whom members of a cluster log in at each other, with the key
// that they share for a password. (mongod: internalSecurity.)
var MemberName = UserName{User: "__system", DB: "local"}

// memberIterations is how often the key is hashed. Nobody guesses a key that was made
// at random.
const memberIterations = 15_000

// Member is the user MemberName, whose password each of the keys is, at most two; with none it
// logs in with a certificate.
func Member(keys []string) *User {
	u := &User{Name: MemberName, Roles: []RoleName{{"__system", "admin"}}}
	var first string
	seed := rand.Text()
	for i, key := range keys {
		c, err := Password{User: MemberName.User, Text: key, Iterations: func(string) int { return memberIterations }}.salted(func(size int) []byte {
			sum := sha512.Sum512([]byte(seed + strconv.Itoa(size)))
			return sum[:size]
		})
		if err != nil {
			invariant.Failf("the key of a cluster is no password: %v", err) // it is base64
		}
		if i == 0 {
			first, u.Credentials = key, c
		} else {
			u.Second = c
		}
	}
	sum := sha256.Sum256([]byte(first))
	u.ID = bson.Binary(0, sum[:])
	return u
}
