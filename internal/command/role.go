package command

import (
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Place says on which members of a replica set a command runs. (mongod: secondaryAllowed
// and maintenanceOk of each command.)
type Place uint8

const (
	// OnPrimary commands write, or only the primary can answer them (10107 elsewhere).
	OnPrimary Place = iota
	// WhereAsked commands run on a secondary if the client's read preference allows it
	// (else 13435) and the secondary serves reads (else 13436).
	WhereAsked
	// WhereReadable commands run wherever documents can be read (13436).
	WhereReadable
	// Anywhere commands run on each member, whatever its role.
	Anywhere
	// WithoutData commands run on each member, too, and use nothing that is stored:
	// they run even while a snapshot replaces the data.
	WithoutData
)

var errNotAsked = mongoerr.New(mongoerr.NotPrimaryNoSecondaryOk, "not primary and secondaryOk=false")

// RunsHere returns nil if this member runs a command for op, else the error for its
// client. The database local is each member's own.
func (d *Dispatcher) RunsHere(op *Op, c *Command) error {
	if d.Member == nil || c.Place >= Anywhere || op.DB == localDB {
		return nil
	}
	err := d.Member.Writable()
	switch {
	case err == nil || c.Place == OnPrimary:
		return err
	case c.Place == WhereAsked && !op.Generic.SecondaryOK:
		return errNotAsked
	}
	return d.Member.Readable()
}
