package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Where the set stores the read and write concern of clients that give none.
var (
	settingsNamespace = schema.Namespace{DB: "config", Coll: "settings"}
	concernsID        = bson.String("ReadWriteConcernDefaults")
)

// defaultConcerns are the concerns of clients that give none. Immutable.
type defaultConcerns struct {
	stored  bson.Doc              // nil if none was set
	write   *command.WriteConcern // nil: the implicit one
	changes int64                 // of the set's topology, when they were read
}

// defaultWrite is Dispatcher.DefaultWrite. They are read again when the member's role
// may have changed; as long as it is primary, only its own setDefaultRWConcern changes
// them.
func (n *Node) defaultWrite(ctx context.Context) *command.WriteConcern {
	m := n.Dispatcher.Member
	if m.Writable() != nil || n.Catalog == nil {
		return nil
	}
	if d := n.concerns.Load(); d != nil && d.changes == m.Changes() {
		return d.write
	}
	var d *defaultConcerns
	err := n.inside(ctx, func(context.Context) (err error) {
		d, err = n.loadConcerns()
		return err
	})
	if err != nil {
		n.Log.ErrorContext(ctx, "Cannot read the default write concern", "c", "COMMAND", "id", 9000015, "error", err.Error())
		return nil
	}
	return d.write
}

// loadConcerns reads what the set has stored.
func (n *Node) loadConcerns() (*defaultConcerns, error) {
	d := &defaultConcerns{changes: n.Dispatcher.Member.Changes()}
	stored, err := n.Catalog.Kept(settingsNamespace, concernsID)
	if err != nil {
		return nil, err
	}
	if d.stored = stored; stored != nil {
		if v := stored.Lookup("defaultWriteConcern"); v.Type == bson.TypeDocument {
			w, err := command.ParseDefaultWrite(v.Doc())
			if err != nil {
				return nil, err
			}
			d.write = &w
		}
	}
	n.concerns.Store(d)
	return d, nil
}

// append writes the defaults as getDefaultRWConcern and setDefaultRWConcern show them.
func (d *defaultConcerns) append(b *bson.Builder) {
	for _, f := range []struct {
		name     string
		implicit bson.Doc
	}{
		{"defaultReadConcern", new(bson.Builder).String("level", "local").Finish()},
		{"defaultWriteConcern", new(bson.Builder).String("w", "majority").Int32("wtimeout", 0).Finish()},
	} {
		source := "implicit"
		if v := d.stored.Lookup(f.name); v.Type == bson.TypeDocument {
			source, f.implicit = "global", v.Doc()
		}
		b.Doc(f.name, f.implicit).String(f.name+"Source", source)
	}
	for _, name := range []string{"updateOpTime", "updateWallClockTime"} {
		if v := d.stored.Lookup(name); !v.IsMissing() {
			b.Value(name, v)
		}
	}
}
