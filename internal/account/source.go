package account

import (
	"context"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
)

// Source is where a router has its users from: the config servers.
type Source interface {
	// User is a user with its credentials and what its roles come to, as usersInfo shows
	// it; nil if there is none.
	User(ctx context.Context, name auth.UserName) (bson.Doc, error)
	// HasUsers says whether there is any user.
	HasUsers(ctx context.Context) (bool, error)
}

// Details are the arguments of a usersInfo whose answer a Source gives.
func Details(name auth.UserName) bson.Doc {
	b := new(bson.Builder).OpenDoc("usersInfo")
	name.Write(b)
	return b.Close().Bool("showPrivileges", true).Bool("showCredentials", true).Bool("showAuthenticationRestrictions", true).Finish()
}
