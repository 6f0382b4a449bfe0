package command

import (
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Place says on which members of a replica set a command runs. (mongod: secondaryAllowed
// and maintenanceOk of each command.)
type Place uint8

const (
	// OnPrimary commands write, or are for the primary to answer (10107 elsewhere).
	OnPrimary Place = iota
	// WhereAsked commands run on a secondary where the client asks for it by its read
	// preference (13435 where it does not), if the secondary serves reads (13436).
	WhereAsked
	// WhereReadable commands run wherever documents can be read (13436).
	WhereReadable
	// Anywhere commands run on each member, whatever its role.
	Anywhere
	// WithoutData commands do, too, and use nothing that is stored: they run also while
	// a snapshot takes the place of the data.
	WithoutData
)

var errNotAsked = mongoerr.New(mongoerr.NotPrimaryNoSecondaryOk, "not primary and secondaryOk=false")

// RunsHere is nil where this member runs a command for op, else the error for its
// client. Each member's database local is its own.
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
