package auth

import "github.com/mayflydb/mayfly/internal/mongoerr"

// Principal is a user who has authenticated, as it was when its roles were
// resolved. Nobody changes it.
type Principal struct {
	User *User
	// Roles are the user's and all that those inherit.
	Roles []RoleName
	// Privileges is what the roles grant.
	Privileges Privileges
	// Generation is the state of users and roles that it was made from.
	Generation uint64

	byResource map[Resource]Actions
}

// NewPrincipal resolves what the user may do.
func NewPrincipal(u *User, store RoleStore, generation uint64) (*Principal, error) {
	resolved, err := store.Resolve(u.Roles, false)
	if err != nil {
		return nil, err
	}
	p := &Principal{User: u, Privileges: resolved.Privileges, Generation: generation, byResource: map[Resource]Actions{}}
	p.Roles = append(p.Roles, u.Roles...)
	for _, r := range resolved.Roles {
		p.Roles = addRole(p.Roles, r)
	}
	u.Restricted = append(u.Restricted, resolved.Restrictions...)
	for _, q := range p.Privileges {
		p.byResource[q.Resource] = q.Actions
	}
	return p, nil
}

// CheckAddress says whether the user may authenticate from where the client is
// (code 18).
func (p *Principal) CheckAddress(client, server string) error {
	if !allowed(p.User.Restricted, client, server) {
		return ErrFailed
	}
	return nil
}

// Need is what a command needs: all of the actions on the resource.
type Need struct {
	Resource Resource
	Actions  Actions
}

// On is the need of actions on a resource.
func On(r Resource, actions ...Action) Need { return Need{r, Of(actions...)} }

// May says whether the principal has what is needed.
func (p *Principal) May(n Need) bool {
	missing := n.Actions
	for _, r := range n.Resource.covers() {
		missing = missing.Without(p.byResource[r])
		if missing.Empty() {
			return true
		}
	}
	return false
}

// MaySome says whether the principal may do the action on something in the
// database.
func (p *Principal) MaySome(db string, a Action) bool {
	if p.May(On(Database(db), a)) {
		return true
	}
	for _, q := range p.Privileges {
		if q.Resource.db == db && q.Actions.Has(a) {
			return true
		}
	}
	return false
}

// MayGrant says whether the principal may give others the roles or take them:
// each where it has grantRole, or revokeRole, in the role's database.
func (p *Principal) MayGrant(roles []RoleName, a Action) error {
	for _, r := range roles {
		if !p.May(On(Database(r.DB), a)) {
			verb := "grant"
			if a == RevokeRole {
				verb = "revoke"
			}
			return mongoerr.New(mongoerr.Unauthorized, "Not authorized to %s role: %s", verb, r)
		}
	}
	return nil
}
