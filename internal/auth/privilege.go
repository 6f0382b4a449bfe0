package auth

import (
	"sort"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Privilege lets its holder do some actions on a resource.
type Privilege struct {
	Resource Resource
	Actions  Actions
}

// Privileges is a list of privileges, at most one for each resource.
type Privileges []Privilege

// Add returns the list with p in it.
func (ps Privileges) Add(p Privilege) Privileges {
	for i := range ps {
		if ps[i].Resource == p.Resource {
			ps[i].Actions = ps[i].Actions.With(p.Actions)
			return ps
		}
	}
	return append(ps, p)
}

// AddAll returns the list with all of qs in it.
func (ps Privileges) AddAll(qs Privileges) Privileges {
	for _, q := range qs {
		ps = ps.Add(q)
	}
	return ps
}

// Remove returns the list less the actions of p on its resource.
func (ps Privileges) Remove(p Privilege) Privileges {
	var kept Privileges
	for _, q := range ps {
		if q.Resource == p.Resource {
			q.Actions = q.Actions.Without(p.Actions)
		}
		if !q.Actions.Empty() {
			kept = append(kept, q)
		}
	}
	return kept
}

// Write appends the privileges as an array.
func (ps Privileges) Write(b *bson.Builder, name string) {
	b.OpenArray(name)
	for i, p := range ps {
		b.OpenDoc(bson.Index(i))
		p.Resource.write(b)
		p.Actions.write(b)
		b.Close()
	}
	b.Close()
}

// ParsePrivileges reads privileges as commands and documents of roles have them:
// {resource: {...}, actions: [...]}. Privileges on one resource become one.
// Errors: code 2 for a resource or an action that is none.
func ParsePrivileges(docs []bson.Value) (Privileges, error) {
	var ps Privileges
	var unknown []string
	for _, v := range docs {
		r, err := parseResource(v.Doc().Lookup("resource").Doc())
		if err != nil {
			return nil, err
		}
		p := Privilege{Resource: r}
		for name := range v.Doc().Lookup("actions").Doc().Values() {
			a, ok := actionsByName[text(name)]
			if !ok {
				unknown = append(unknown, text(name))
				continue
			}
			p.Actions = p.Actions.With(Of(a))
		}
		ps = ps.Add(p)
	}
	if len(unknown) > 0 {
		return nil, unknownActions(unknown)
	}
	return ps, nil
}

func unknownActions(names []string) error {
	sort.Strings(names)
	var quoted []string
	for i, name := range names {
		if i == 0 || name != names[i-1] {
			quoted = append(quoted, "'"+name+"'")
		}
	}
	plural := ""
	if len(quoted) > 1 {
		plural = "s"
	}
	return mongoerr.New(mongoerr.BadValue, "Unknown action type%s in privilege set: %s", plural, strings.Join(quoted, ", "))
}

// CheckGrantable reports whether a role may have the privileges: those of a role
// outside of admin are about its own database (code 49).
func (ps Privileges) CheckGrantable(role RoleName) error {
	if role.DB == "admin" {
		return nil
	}
	for _, p := range ps {
		if p.Resource.database() != role.DB {
			return mongoerr.New(mongoerr.InvalidRoleModification,
				"Roles on the '%s' database cannot be granted privileges that target other databases or the cluster", role.DB)
		}
	}
	return nil
}
