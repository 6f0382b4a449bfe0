package node

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
)

var setDefaultRWConcernFields = command.NewFields("setDefaultRWConcern", command.Object("defaultReadConcern"), command.Object("defaultWriteConcern"))

// setDefaultRWConcern sets the concerns of clients that give none, for the whole set.
// (Manual: database command setDefaultRWConcern.)
func (n *Node) setDefaultRWConcern() *command.Command {
	return &command.Command{
		Name: "setDefaultRWConcern", Fields: setDefaultRWConcernFields, Flags: command.TakesWriteConcern | command.Writes,
		Help: "set the current read/write concern defaults (cluster-wide)", Run: n.runSetDefaultRWConcern,
	}
}

func (n *Node) runSetDefaultRWConcern(ctx context.Context, op *command.Op) error {
	a := &op.Args
	if !a.Has("defaultReadConcern") && !a.Has("defaultWriteConcern") {
		return mongoerr.New(mongoerr.BadValue, `At least one of the "defaultReadConcern" or "defaultWriteConcern" fields must be present`)
	}
	st, err := n.setState()
	if err != nil {
		return err
	}
	if err := op.WriteConcern.CheckMode(st.Config); err != nil { // nothing is changed then
		return err
	}
	// One at a time: what is stored is made from what is stored.
	select {
	case n.concernsChange <- struct{}{}:
		defer func() { <-n.concernsChange }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	old, err := n.loadConcerns()
	if err != nil {
		return err
	}
	b := new(bson.Builder).Value("_id", concernsID)
	read, err := newDefault(a, old, "defaultReadConcern", checkDefaultRead)
	if err != nil {
		return err
	}
	write, err := newDefault(a, old, "defaultWriteConcern", func(d bson.Doc) (bson.Doc, error) { return checkDefaultWrite(d, st.Config) })
	if err != nil {
		return err
	}
	if read != nil {
		b.Doc("defaultReadConcern", read)
	}
	if write != nil {
		b.Doc("defaultWriteConcern", write)
	} else if old.write != nil {
		return mongoerr.New(mongoerr.IllegalOperation, "The global default write concern cannot be unset once it is set.")
	}
	b.Timestamp("updateOpTime", uint64(n.Dispatcher.Member.Clock().Now())).Date("updateWallClockTime", time.Now().UnixMilli())
	if err := n.Catalog.Keep(ctx, settingsNamespace, b.Finish()); err != nil {
		return err
	}
	d, err := n.loadConcerns()
	if err != nil {
		return err
	}
	d.append(op.Reply)
	op.Reply.Date("localUpdateWallClockTime", time.Now().UnixMilli())
	return nil
}

// newDefault returns the new default: what the client gives, nil if that is
// empty, and the old one where it gives none.
func newDefault(a *command.Args, old *defaultConcerns, name string, check func(bson.Doc) (bson.Doc, error)) (bson.Doc, error) {
	if !a.Has(name) {
		if v := old.stored.Lookup(name); v.Type == bson.TypeDocument {
			return v.Doc(), nil
		}
		return nil, nil
	}
	d := a.Doc(name)
	if d.IsEmpty() {
		return nil, nil
	}
	return check(d)
}

var defaultReadFields = command.NewFields("readConcern", command.Enum("level", "local", "majority", "linearizable", "available", "snapshot"))

// checkDefaultRead returns the default read concern that is stored for d.
func checkDefaultRead(d bson.Doc) (bson.Doc, error) {
	a, err := command.ParseDoc(defaultReadFields, d)
	if err != nil {
		return nil, err
	}
	if level := a.Str("level"); level == "linearizable" || level == "snapshot" {
		return nil, mongoerr.New(mongoerr.BadValue, "level: '%s' is not suitable for the default read concern", level)
	}
	return d, nil
}

// checkDefaultWrite returns the default write concern that is stored for d, with its wtimeout.
func checkDefaultWrite(d bson.Doc, c *repl.Config) (bson.Doc, error) {
	w, err := command.ParseWriteConcern(d)
	switch {
	case err != nil:
		return nil, err
	case !w.HasW():
		return nil, mongoerr.New(mongoerr.BadValue, "The default write concern must have the field 'w'")
	case w.Unacknowledged():
		return nil, mongoerr.New(mongoerr.BadValue, "Unacknowledged write concern (w: 0) is not suitable for the default write concern")
	}
	return w.Document(), w.CheckMode(c)
}
