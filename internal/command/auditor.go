package command

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Auditor keeps what is done, for auditors. (Package audit has the one there is.)
type Auditor interface {
	// Ready returns an error where op is to be audited, and cannot be.
	Ready(op *Op) error
	// Writable returns an error where nothing can be told. (That of Ready.)
	Writable() error
	// Checked tells whether op's client may run it: err, or nil. It returns an error where
	// that cannot be told.
	Checked(op *Op, err error) error
	// Done tells that op has ended with err.
	Done(op *Op, err error)
	// Tell tells of what a client, nil for the server, is about to do. Where it returns an
	// error that must not be done.
	Tell(c *Client, atype string, param bson.Doc, result mongoerr.Code) error
	// Keep tells of what has been done. For the server itself, c is nil, and while it cannot be
	// told the 64-bit numbers in params that are the same otherwise are added together.
	Keep(c *Client, atype string, param bson.Doc)
}

// audited runs op by run, and tells of it.
func (d *Dispatcher) audited(op *Op, run func() error) (err error) {
	if d.Audit == nil || op.Client.Internal {
		return run()
	}
	if err := d.Audit.Ready(op); err != nil {
		return err
	}
	defer func() { d.Audit.Done(op, err) }()
	return run()
}

// IntentEvent is the event of an op that is an intent (Intent.Event); ok is false of a command,
// whose name says which events it leaves.
func (op *Op) IntentEvent() (atype string, details func() (param bson.Doc, answered mongoerr.Code), ok bool) {
	if op.intent == nil {
		return "", nil, false
	}
	atype, details = op.intent.Event()
	return atype, details, true
}

// checked tells whether op may run.
func (d *Dispatcher) checked(op *Op, err error) error {
	if d.Audit == nil {
		return err
	}
	if failed := d.Audit.Checked(op, err); failed != nil {
		return failed
	}
	return err
}

// Audit tells of what op's client is about to do, as Auditor.Tell.
func (op *Op) Audit(atype string, param bson.Doc, result mongoerr.Code) error {
	if op.Dispatcher.Audit == nil {
		return nil
	}
	return op.Dispatcher.Audit.Tell(op.Client, atype, param, result)
}

// IsAudited reports whether auditors are told of what op does.
func (op *Op) IsAudited() bool {
	return op.Dispatcher != nil && op.Dispatcher.Audit != nil && (op.Client == nil || !op.Client.Internal)
}

// Auditable returns an error where Audited could not tell: then op must not do it.
func (op *Op) Auditable() error {
	if op.Dispatcher.Audit == nil {
		return nil
	}
	return op.Dispatcher.Audit.Writable()
}

// Audited tells of what op has done that its name does not tell.
func (op *Op) Audited(atype string, param bson.Doc) {
	if op.Dispatcher.Audit != nil {
		op.Dispatcher.Audit.Keep(op.Client, atype, param)
	}
}

// AuditEnd tells that op, which another command has run as a part of itself, has ended with err.
func (op *Op) AuditEnd(err error) {
	if op.Dispatcher.Audit != nil && !op.Client.Internal {
		op.Dispatcher.Audit.Done(op, err)
	}
}

// AuditedRename tells that op has given a collection, by its full name, another one.
func (op *Op) AuditedRename(old, to string) {
	op.Audited("renameCollection", new(bson.Builder).String("old", old).String("new", to).Finish())
}
