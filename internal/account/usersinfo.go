package account

import (
	"cmp"
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

var usersInfoFields = command.NewFields("usersInfo", command.Value(command.Any("").Required()),
	command.SafeBool("showPrivileges"), command.SafeBool("showCredentials"), command.SafeBool("showCustomData"),
	command.SafeBool("showAuthenticationRestrictions"), command.String("authenticatedMechanism"), command.Object("filter"))

// usersInfo describes users: {usersInfo: 1} all of the database; {forAllDBs:
// true} all there are; a name, {user, db} or an array of those the given ones.
func (s *Store) usersInfo() *command.Command {
	return &command.Command{
		Name: "usersInfo", Fields: usersInfoFields, Help: "Returns information about users.", Run: s.runUsersInfo,
	}
}

func (s *Store) runUsersInfo(_ context.Context, op *command.Op) error {
	a := &op.Args
	v := a.Value("usersInfo")
	everywhere := v.Type == bson.TypeDocument && v.Doc().Lookup("forAllDBs").Truthy()
	var names [][2]string
	all := everywhere
	if !everywhere {
		var err error
		if names, all, err = infoNames(op, "UserName", "user"); err != nil {
			return err
		}
	}
	details := a.Bool("showPrivileges") || a.Bool("showAuthenticationRestrictions")
	if details && (all || a.Has("filter")) {
		return mongoerr.New(mongoerr.IllegalOperation, "Privilege or restriction details require exact-match usersInfo queries")
	}
	if !all && len(names) == 0 && !details {
		return mongoerr.New(mongoerr.BadValue, "$and/$or/$nor must be a nonempty array") // the server's filter for the names
	}
	filter, err := match.Parse(a.Doc("filter"), &match.Options{})
	if err != nil {
		return err
	}
	users, err := s.usersNamed(names, all, map[bool]string{false: op.DB}[everywhere])
	if err != nil {
		return err
	}
	b := op.Reply.OpenArray("users")
	i := 0
	for _, d := range users {
		shown, err := s.describeUser(d, a, details)
		if err != nil {
			return err
		}
		if ok, err := filter.Match(shown); err != nil {
			return err
		} else if !ok {
			continue
		}
		b.Doc(bson.Index(i), shown)
		i++
	}
	b.Close()
	return nil
}

// usersNamed returns the documents of users in order of user and database:
// those of db ("" for all), or those named.
func (s *Store) usersNamed(names [][2]string, all bool, db string) ([]bson.Doc, error) {
	var users []bson.Doc
	if all {
		var err error
		if users, err = s.accountsOf(usersNamespace, db); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		d, err := s.kept(usersNamespace, auth.UserName{User: name[0], DB: name[1]}.ID())
		if err != nil {
			return nil, err
		}
		if d != nil {
			users = append(users, d)
		}
	}
	slices.SortStableFunc(users, func(x, y bson.Doc) int {
		return cmp.Or(cmp.Compare(x.Lookup("user").Str(), y.Lookup("user").Str()), cmp.Compare(x.Lookup("db").Str(), y.Lookup("db").Str()))
	})
	return users, nil
}

// describeUser returns a user as usersInfo shows it.
func (s *Store) describeUser(d bson.Doc, a *command.Args, details bool) (bson.Doc, error) {
	var b bson.Builder
	u, err := auth.ParseUser(d)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(auth.MechanismNames()))
	for name := range u.Credentials.All() {
		names = append(names, name)
	}
	for name, v := range d.All() {
		switch {
		case name == "credentials" && details:
			b.Strings("mechanisms", names...)
			if a.Bool("showCredentials") {
				b.Value(name, v)
			}
		case name == "credentials" && !a.Bool("showCredentials"),
			name == "customData" && !a.BoolOr("showCustomData", true),
			name == "authenticationRestrictions" && !a.Bool("showAuthenticationRestrictions"):
		default:
			b.Value(name, v)
		}
	}
	if !details {
		return b.Strings("mechanisms", names...).Finish(), nil
	}
	resolved, err := auth.RoleStore(s.role).Resolve(u.Roles, false)
	if err != nil {
		return nil, err
	}
	if a.Bool("showAuthenticationRestrictions") && len(u.Restricted) == 0 {
		b.OpenArray("authenticationRestrictions").Close()
	}
	resolved.Roles = auth.Union(resolved.Roles, u.Roles)
	writeResolved(&b, resolved, true, a.Bool("showAuthenticationRestrictions"))
	return b.Finish(), nil
}
