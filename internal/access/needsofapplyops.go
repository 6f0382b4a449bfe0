package access

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/schema"
)

// applyOpsNeeds requires applyOps on the cluster, and for each entry what the command needs
// that would do the same. Entries that name a UUID require useUUID, and those that create a
// collection of that UUID forceUUID. No entries at all, a create or a rename beside others,
// and whatever is not understood require everything. (Manual: mongorestore, "Required
// Access"; privilege actions applyOps, useUUID, forceUUID.)
func applyOpsNeeds(c Collections, op *command.Op) []auth.Need {
	return append(one(auth.Cluster, auth.ApplyOps), entriesNeeds(c, op, op.Body, 0)...)
}

// maxEntriesDepth is how deep applyOps may be in others; mongod's bound.
const maxEntriesDepth = 10

func entriesNeeds(c Collections, op *command.Op, body bson.Doc, depth int) (all []auth.Need) {
	superuser := []auth.Need{auth.Superuser()}
	_, list := body.First()
	if list.Type != bson.TypeArray || list.Doc().IsEmpty() || depth > maxEntriesDepth {
		return superuser
	}
	entries := list.Doc().Slice()
	for _, e := range entries {
		if e.Type != bson.TypeDocument {
			return superuser
		}
		entry := e.Doc()
		name, _ := within(entry.Lookup("o")).First()
		alone := name == "create" || name == "renameCollection"
		if text(entry.Lookup("op")) == "c" && alone && len(entries) > 1 {
			return superuser
		}
		needs, ok := entryNeeds(c, op, entry, depth)
		if !ok {
			return superuser
		}
		all = append(all, needs...)
	}
	return all
}

// entryNeeds are the needs of one entry; ok is false for one that is not understood.
func entryNeeds(c Collections, op *command.Op, entry bson.Doc, depth int) (all []auth.Need, ok bool) {
	kind, o := text(entry.Lookup("op")), within(entry.Lookup("o"))
	if kind == "n" {
		return one(auth.Cluster, auth.AppendOplogNote), true
	}
	if entry.Lookup("ns").Type != bson.TypeString {
		return nil, false
	}
	ns := schema.ParseNamespace(entry.Lookup("ns").Str())
	if hasUUID(entry) || kind == "c" && hasUUID(o) {
		all = one(auth.Cluster, auth.UseUUID)
		if name, _ := o.First(); kind == "c" && name == "create" {
			all = append(all, auth.On(auth.Cluster, auth.ForceUUID))
		}
	}
	target := collectionResource(ns.DB, ns.Coll)
	switch kind {
	case "i":
		return append(all, auth.On(target, auth.Insert)), true
	case "u":
		all = append(all, auth.On(target, auth.Update))
		if entry.Lookup("b").Truthy() {
			all = append(all, auth.On(target, auth.Insert))
		}
		return all, true
	case "d":
		return append(all, auth.On(target, auth.Remove)), true
	case "c":
		more, ok := commandNeeds(c, op, ns.DB, entry.Lookup("ui"), o, depth)
		return append(all, more...), ok
	}
	return nil, false
}

// commandNeeds are the needs of an entry's command, which is about the collection with a
// UUID where there is one.
func commandNeeds(c Collections, op *command.Op, db string, id bson.Value, o bson.Doc, depth int) ([]auth.Need, bool) {
	name, first := o.First()
	if name == "applyOps" {
		return entriesNeeds(c, op, o, depth+1), true
	}
	of, known := needs[name]
	if !known || !slices.Contains(entryCommands, name) {
		return nil, false
	}
	switch {
	case id.Type != bson.TypeBinary || name == "create" || name == "dropDatabase":
	case name == "renameCollection":
		source := schema.ParseNamespace(text(first))
		if _, content := id.Binary(); len(content) == 16 && c.NameOf(source.DB, [16]byte(content)) != "" {
			first = bson.String(source.DB + "." + c.NameOf(source.DB, [16]byte(content)))
		}
	default:
		first = id
	}
	b := new(bson.Builder).Value(name, first)
	for field, v := range o.All() {
		if field != name {
			b.Value(field, v)
		}
	}
	inner := &command.Op{DB: db, Name: name, Body: b.Finish(), Client: op.Client, Dispatcher: op.Dispatcher}
	return of(c, inner), true
}

// entryCommands are the commands that entries may have; others are refused, whoever asks.
var entryCommands = []string{"create", "drop", "dropDatabase", "dropIndexes", "collMod", "convertToCapped", "renameCollection"}

// hasUUID reports whether a field is a UUID.
func hasUUID(d bson.Doc) bool {
	for v := range d.Values() {
		if v.Type == bson.TypeBinary {
			if subtype, _ := v.Binary(); subtype == 4 {
				return true
			}
		}
	}
	return false
}
