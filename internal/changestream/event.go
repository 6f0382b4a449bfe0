package changestream

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/oplog"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Maker makes the events of one stream. Not for use by several goroutines at once.
type Maker struct {
	Options *Options
	Scope   Scope
	// Find returns the current document with a key in the collection with a UUID; nil if
	// there is none. It is called for fullDocument: "updateLookup".
	Find func(ctx context.Context, op *catalog.Operation, key bson.Doc) (bson.Doc, error)
	// ImagesSince is the wall time, in milliseconds since 1970, before which images have
	// expired.
	ImagesSince int64
	// Wants, if not nil, reports whether the events of an operation can pass what comes
	// behind the stream; it may say so of too many.
	Wants func(kind string, op *catalog.Operation, of int) bool

	b, key, id bson.Builder
	// The memory of the last event, of its token as a document, of the last document key,
	// and of the last identifier before it was encoded.
	room, token, keyRoom, idRoom []byte
}

// TokenDoc is the token of the last event as a document, valid until the next one.
func (m *Maker) TokenDoc() bson.Doc { return m.token }

// At is an operation, and its place.
type At struct {
	*catalog.Operation
	// Of is the number of the document among those of the operation.
	Of int
	// Time is the operation's time, Op its number among the operations of that time.
	Time, Op uint64
	// Session is that of a transaction; nil outside of one.
	Session *catalog.Session
}

// kinds are the operationTypes of the events of operations that are no command.
var kinds = [...]string{
	catalog.OpInsert: "insert", catalog.OpUpdate: "update", catalog.OpReplace: "replace", catalog.OpDelete: "delete",
	catalog.OpExpired: "delete", catalog.OpRange: "", catalog.OpCommand: "",
}

// command is what a command of the log is told as.
type command struct {
	kind string
	// expanded says that only streams with showExpandedEvents tell of it.
	expanded bool
}

var commands = map[string]command{
	"drop": {"drop", false}, "renameCollection": {"rename", false}, "dropDatabase": {"dropDatabase", false},
	"create": {"create", true}, "createIndexes": {"createIndexes", true}, "commitIndexBuild": {"createIndexes", true},
	"dropIndexes": {"dropIndexes", true}, "collMod": {"modify", true},
	"shardCollection": {"shardCollection", true}, "refineCollectionShardKey": {"refineCollectionShardKey", true}, "reshardCollection": {"reshardCollection", true},
}

// Kind returns the operationType of an operation's events; "" if the stream does not tell
// of it.
func (m *Maker) Kind(op *catalog.Operation) string {
	if op.Kind != catalog.OpCommand {
		if op.Silent || !m.Scope.has(op.Namespace) {
			return ""
		}
		return kinds[op.Kind]
	}
	if op.Internal {
		return ""
	}
	name, _ := op.Doc.First()
	c := commands[name]
	if c.expanded && !m.Options.Expanded || op.Silent && !m.Options.Expanded {
		return ""
	}
	switch name {
	case "dropDatabase":
		if m.Scope.Coll != "" || !m.Scope.has(schema.Namespace{DB: op.Namespace.DB}) {
			return ""
		}
		return c.kind
	case "renameCollection":
		if m.Scope.has(target(op)) {
			return c.kind
		}
	}
	if !m.Scope.has(op.Namespace) {
		return ""
	}
	return c.kind
}

// Unlisted reports whether an operation of the stream's removed documents without a list of
// them: nobody can tell of each.
func (m *Maker) Unlisted(op *catalog.Operation) bool {
	return op.Kind == catalog.OpRange && !op.Silent && m.Scope.has(op.Namespace)
}

// target is the new name that a rename gives.
func target(op *catalog.Operation) schema.Namespace {
	db, coll, _ := strings.Cut(op.Doc.Lookup("to").Str(), ".")
	return schema.Namespace{DB: db, Coll: coll}
}

// Invalidates reports whether an event of a kind ends the stream.
func (m *Maker) Invalidates(kind string) bool {
	switch kind {
	case "drop", "rename":
		return m.Scope.Coll != ""
	case "dropDatabase":
		return m.Scope.DB != ""
	}
	return false
}

// Token returns the token of an event.
func (m *Maker) Token(kind string, at At) Token {
	m.id.Reset(m.idRoom[:0]).String("operationType", kind)
	if at.Kind == catalog.OpCommand {
		if description := m.description(at.Operation); description != nil {
			m.id.Doc("operationDescription", description)
		}
	} else {
		m.id.Doc("documentKey", m.documentKey(at))
	}
	m.idRoom = m.id.Finish()
	id := keystring.Append(nil, bson.Document(m.idRoom), false, nil)
	return Token{Time: at.Time, Event: true, Op: at.Op, UUID: at.UUID, Identifier: id, Fragment: -1}
}

// documentKey returns what identifies the document of an event.
func (m *Maker) documentKey(at At) bson.Doc {
	m.keyRoom = at.AppendKey(m.key.Reset(m.keyRoom[:0]), at.Of).Finish()
	return m.keyRoom
}

// description returns the operationDescription of a command; nil if it has none.
func (m *Maker) description(op *catalog.Operation) bson.Doc {
	name, _ := op.Doc.First()
	b := new(bson.Builder)
	switch name {
	case "drop", "dropDatabase":
		return nil
	case "renameCollection":
		return namespace(b, "to", target(op)).Only(op.Doc, []string{"dropTarget"}).Finish()
	case "createIndexes":
		b.OpenArray("indexes").OpenDoc("0")
		return without(b, op.Doc, name).Close().Close().Finish()
	case "commitIndexBuild":
		return b.Only(op.Doc, []string{"indexes"}).Finish()
	case "dropIndexes":
		return b.OpenArray("indexes").Doc("0", op.Old).Close().Finish()
	}
	return without(b, op.Doc, name).Finish()
}

// without writes the fields of a document but for one.
func without(b *bson.Builder, d bson.Doc, name string) *bson.Builder {
	for f, v := range d.All() {
		if f != name {
			b.Value(f, v)
		}
	}
	return b
}

func namespace(b *bson.Builder, name string, ns schema.Namespace) *bson.Builder {
	b.OpenDoc(name).String("db", ns.DB)
	if ns.Coll != "" {
		b.String("coll", ns.Coll)
	}
	return b.Close()
}

// head writes the beginning of an event.
func (m *Maker) head(t *Token, kind string, at At) *bson.Builder {
	m.token = t.AppendDoc(m.token[:0])
	b := m.b.Reset(m.room[:0]).Doc("_id", m.token)
	b.String("operationType", kind).Timestamp("clusterTime", at.Time)
	if m.Options.Expanded && at.UUID != (catalog.UUID{}) && kind != "invalidate" {
		b.Binary("collectionUUID", 4, at.UUID[:])
	}
	return b.Date("wallTime", wall(at.Time))
}

// wall is the wall time of a cluster time, in milliseconds since 1970.
func wall(time uint64) int64 { return int64(time>>32) * 1000 }

// Invalidate returns the event that ends the stream, behind one of an operation that
// invalidates it, and its token.
func (m *Maker) Invalidate(of *Token, at At) (bson.Doc, Token) {
	t := *of
	t.FromInvalidate, t.Fragment = true, -1
	return m.finish(m.head(&t, "invalidate", at)), t
}

// Event returns the event of an operation, valid until the next call. Errors: 47 for an
// image that is required and is not there, those of Find.
func (m *Maker) Event(ctx context.Context, kind string, t *Token, at At) (bson.Doc, error) {
	b := m.head(t, kind, at)
	if at.Kind == catalog.OpCommand {
		m.command(b, kind, at.Operation)
		return m.finish(b), nil
	}
	switch at.Kind {
	case catalog.OpInsert, catalog.OpReplace:
		b.Doc("fullDocument", at.Doc)
	case catalog.OpUpdate:
		if err := m.fullDocument(ctx, b, at); err != nil {
			return nil, err
		}
	}
	namespace(b, "ns", at.Namespace)
	b.Doc("documentKey", m.documentKey(at))
	if at.Kind == catalog.OpUpdate {
		m.updateDescription(b, at)
	}
	if at.Kind != catalog.OpInsert {
		if err := m.before(b, at); err != nil {
			return nil, err
		}
	}
	if at.Session != nil {
		b.Doc("lsid", at.Session.ID).Int64("txnNumber", at.Session.Txn)
	}
	if at.Rule != "" {
		b.OpenDoc("expired").String("rule", at.Rule)
		if at.Due != 0 {
			b.Date("at", at.Due)
		}
		b.Close()
	}
	return m.finish(b), nil
}

func (m *Maker) finish(b *bson.Builder) bson.Doc {
	d := b.Finish()
	m.room = d
	return d
}

// command writes the event of DDL.
func (m *Maker) command(b *bson.Builder, kind string, op *catalog.Operation) {
	namespace(b, "ns", op.Namespace)
	if kind == "rename" {
		namespace(b, "to", target(op))
	}
	if !m.Options.Expanded {
		return
	}
	if d := m.description(op); d != nil {
		b.Doc("operationDescription", d)
	}
	if kind == "modify" && op.Old != nil {
		b.Doc("stateBeforeChange", op.Old)
	}
}

// fullDocument writes the whole document of an update, where it is asked for.
func (m *Maker) fullDocument(ctx context.Context, b *bson.Builder, at At) error {
	switch m.Options.FullDocument {
	case Off:
		return nil
	case Lookup:
		doc, err := m.Find(ctx, at.Operation, m.documentKey(at))
		if err != nil {
			return err
		}
		appendImage(b, "fullDocument", doc)
		return nil
	}
	if m.hasImage(at) {
		b.Doc("fullDocument", at.Doc)
		return nil
	}
	if m.Options.FullDocument == Required {
		return mongoerr.New(mongoerr.NoMatchingDocument,
			"Change stream was configured to require a post-image for all update events, but the post-image was not found for event: {operationType: \"update\", ns: %q, documentKey: %s}", at.Namespace, m.documentKey(at))
	}
	b.Null("fullDocument")
	return nil
}

// before writes the document as it was before the change, where it is asked for.
func (m *Maker) before(b *bson.Builder, at At) error {
	if m.Options.Before == Off {
		return nil
	}
	if m.hasImage(at) {
		appendImage(b, "fullDocumentBeforeChange", at.Before(at.Of))
		return nil
	}
	if m.Options.Before == Required {
		return mongoerr.New(mongoerr.NoMatchingDocument,
			"Change stream was configured to require a pre-image for all update, delete and replace events, but the pre-image was not found for event: {operationType: %q, ns: %q, documentKey: %s}", kinds[at.Kind], at.Namespace, m.documentKey(at))
	}
	b.Null("fullDocumentBeforeChange")
	return nil
}

// hasImage reports whether the images of an operation are there: they were kept when it
// was made, and have not expired.
func (m *Maker) hasImage(at At) bool { return at.Images && wall(at.Time) >= m.ImagesSince }

func appendImage(b *bson.Builder, name string, doc bson.Doc) {
	if doc == nil {
		b.Null(name)
	} else {
		b.Doc(name, doc)
	}
}

// Replaces reports whether an update is told as a replacement: no delta can express it.
func Replaces(op *catalog.Operation) bool {
	if op.Kind != catalog.OpUpdate {
		return false
	}
	_, ok := oplog.Diff(op.Old, op.Doc)
	return !ok
}
