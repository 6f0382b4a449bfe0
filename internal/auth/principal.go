package auth

import "slices"

// Principal is a user who has authenticated, as it was when its roles were
// resolved. Immutable.
type Principal struct {
	User *User
	// Roles are the user's and all that those inherit.
	Roles []RoleName
	// Privileges is what the roles grant.
	Privileges Privileges
	// Digest is that of the user's name.
	Digest [32]byte
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
	return ResolvedPrincipal(u, resolved, generation), nil
}

// ResolvedPrincipal is NewPrincipal where what the user's roles come to is known.
func ResolvedPrincipal(u *User, resolved Resolved, generation uint64) *Principal {
	p := &Principal{User: u, Privileges: resolved.Privileges, Digest: u.Name.Digest(), Generation: generation, byResource: map[Resource]Actions{}}
	p.Roles = append(p.Roles, u.Roles...)
	for _, r := range resolved.Roles {
		p.Roles = addRole(p.Roles, r)
	}
	own := *u
	own.Restricted = append(slices.Clone(u.Restricted), resolved.Restrictions...)
	p.User = &own
	for _, q := range p.Privileges {
		p.byResource[q.Resource] = q.Actions
	}
	return p
}

// CheckAddress reports whether the user may authenticate from where the client is
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

// Superuser is the need of every action on every resource.
func Superuser() Need { return Need{Resource{form: formAny}, everything} }

// Has reports whether the principal has the role.
func (p *Principal) Has(r RoleName) bool { return slices.Contains(p.Roles, r) }

// May reports whether the principal has what is needed.
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

// MayAll reports whether the principal has all that is needed.
func (p *Principal) MayAll(needs []Need) bool {
	return !slices.ContainsFunc(needs, func(n Need) bool { return !p.May(n) })
}

// MaySomeIn reports whether the principal may do anything with anything in the
// database.
func (p *Principal) MaySomeIn(db string) bool {
	if p.MaySomeOn(Database(db)) {
		return true
	}
	for _, q := range p.Privileges {
		if q.Resource.db == db {
			return true
		}
	}
	return false
}

// MaySomeOn reports whether the principal may do anything with the resource.
func (p *Principal) MaySomeOn(r Resource) bool {
	for _, c := range r.covers() {
		if !p.byResource[c].Empty() {
			return true
		}
	}
	return false
}
