package expr

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// scope is the innermost binding of a variable and, after it, those around it.
type scope struct {
	outer *scope
	name  string
	slot  int
}

// bind brings a variable into scope and returns its slot. Slots are numbered by
// nesting, so variables that are never alive together share one.
func (p *parser) bind(name string) int {
	slot := p.slots
	p.slots++
	p.scope = &scope{p.scope, name, slot}
	return slot
}

// within runs parse with the variables bound and takes them out of scope again.
func (p *parser) within(names []string, parse func(slots []int) error) error {
	scope, slots := p.scope, p.slots
	bound := make([]int, len(names))
	for i, n := range names {
		bound[i] = p.bind(n)
	}
	err := parse(bound)
	p.scope, p.slots = scope, slots
	return err
}

// lookup finds the innermost user variable of that name.
func (p *parser) lookup(name string) (slot int, ok bool) {
	for s := p.scope; s != nil; s = s.outer {
		if s.name == name {
			return s.slot, true
		}
	}
	return 0, false
}

// The slots of system variables, below those of user variables.
const (
	slotRoot = -1 - iota
	slotNow
	slotClusterTime
	slotRemove
	slotPrune
	slotKeep
	slotDescend
	slotUserRoles
	slotSearchMeta
)

var systemVars = map[string]int{
	"ROOT":         slotRoot,
	"CURRENT":      slotRoot,
	"NOW":          slotNow,
	"CLUSTER_TIME": slotClusterTime,
	"REMOVE":       slotRemove,
	"PRUNE":        slotPrune,
	"KEEP":         slotKeep,
	"DESCEND":      slotDescend,
	"USER_ROLES":   slotUserRoles,
	"SEARCH_META":  slotSearchMeta,
}

// The values of $redact's variables.
var (
	// Prune is the value of $$PRUNE.
	Prune = bson.String("prune")
	// Keep is the value of $$KEEP.
	Keep = bson.String("keep")
	// Descend is the value of $$DESCEND.
	Descend = bson.String("descend")
)

// variable returns the value of a slot.
func (e *Env) variable(slot int) (bson.Value, error) {
	if slot >= 0 {
		return e.Var(slot), nil
	}
	switch slot {
	case slotRoot:
		if e.root == nil {
			return bson.Value{}, nil
		}
		return bson.Document(e.root), nil
	case slotNow:
		if e.Now == 0 {
			return bson.Value{}, errUnavailable("NOW")
		}
		return e.Date(e.Now), nil
	case slotClusterTime:
		switch {
		case e.ClusterTime != 0:
		case e.Now == 0:
			return bson.Value{}, errUnavailable("CLUSTER_TIME")
		default:
			return bson.Timestamp(uint64(e.Now/1000)<<32 | 1), nil
		}
		return bson.Timestamp(e.ClusterTime), nil
	case slotPrune:
		return Prune, nil
	case slotKeep:
		return Keep, nil
	case slotDescend:
		return Descend, nil
	case slotUserRoles:
		return e.UserRoles, nil
	case slotSearchMeta:
		return e.SearchMeta, nil
	}
	return bson.Value{}, nil
}

// errUnavailable is the error of reading a system variable that the command
// does not set.
func errUnavailable(name string) error {
	return mongoerr.New(mongoerr.Code(51144), "Builtin variable '$$%s' is not available", name)
}

// ValidateVarName checks a name that a user gives a variable in a `let`, a
// $let, or as the `as` of $map and $filter.
func ValidateVarName(name string) error {
	if name == "CURRENT" {
		return nil
	}
	return validateName(name, false)
}

func validateName(name string, system bool) error {
	if name == "" {
		return mongoerr.New(mongoerr.FailedToParse, "empty variable names are not allowed")
	}
	c := name[0]
	if !(c >= 'a' && c <= 'z' || c >= 0x80 || system && c >= 'A' && c <= 'Z') {
		return mongoerr.New(mongoerr.FailedToParse,
			"'%s' starts with an invalid character for a user variable name", name)
	}
	for i := 1; i < len(name); i++ {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c >= 0x80) {
			return mongoerr.New(mongoerr.FailedToParse,
				"'%s' contains an invalid character for a variable name: '%c'", name, c)
		}
	}
	return nil
}

// reference resolves the name of a variable that an expression reads.
func (p *parser) reference(name string) (slot int, err error) {
	if err := validateName(name, true); err != nil {
		return 0, err
	}
	if slot, ok := p.lookup(name); ok {
		return slot, nil
	}
	slot, ok := systemVars[name]
	if !ok || !p.opts.Redact && (slot == slotKeep || slot == slotPrune || slot == slotDescend) {
		return 0, mongoerr.New(mongoerr.Code(17276), "Use of undefined variable: %s", name)
	}
	switch {
	case p.opts.NoDocument && slot == slotRoot || p.opts.NoClock && slot == slotNow:
		return 0, errUnavailable(name)
	case !p.opts.ClusterTime && slot == slotClusterTime:
		return 0, mongoerr.New(mongoerr.Code(10071200),
			"system variable $$CLUSTER_TIME is not available in standalone mode")
	}
	return slot, nil
}

// current is the slot that a plain "$a" reads from: that of CURRENT.
func (p *parser) current() int {
	if slot, ok := p.lookup("CURRENT"); ok {
		return slot
	}
	return slotRoot
}
