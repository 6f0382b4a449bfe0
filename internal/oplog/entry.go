package oplog

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
)

// version is the "v" of documents: that of MongoDB's oplog since 2.6.
const version = 2

// Entry is an entry of the log, as far as its documents show it.
type Entry struct {
	// Time is the time of its last document, as a BSON timestamp. Earlier documents
	// have the times before it, one each.
	Time uint64
	Term uint64
	// Operations are those of a write, and Session is the session that sent them. Where
	// there are none, Note is the text of a noop; nil for an entry without documents.
	Operations []catalog.Operation
	Session    catalog.Session
	Note       bson.Doc
}

// Note returns the text of a noop that the server itself writes.
func Note(message string) bson.Doc { return new(bson.Builder).String("msg", message).Finish() }

// Len returns the number of documents.
func (e *Entry) Len() int {
	if len(e.Operations) == 0 && e.Note != nil {
		return 1
	}
	return len(e.Operations)
}

// At returns the time of a document.
func (e *Entry) At(i int) uint64 { return e.Time - uint64(e.Len()-1-i) }

// Document writes a document of the entry into b, which is empty.
func (e *Entry) Document(b *bson.Builder, i int) bson.Doc {
	if len(e.Operations) == 0 {
		b.String("op", "n").String("ns", "").Doc("o", e.Note)
		return e.end(b, i)
	}
	op := &e.Operations[i]
	session := e.Session.ID != nil && op.Statement >= 0
	if session {
		b.Doc("lsid", e.Session.ID).Int64("txnNumber", e.Session.Txn)
	}
	forms[op.Kind](b, op)
	if session {
		b.Int32("stmtId", op.Statement)
	}
	return e.end(b, i)
}

// end writes when it was.
func (e *Entry) end(b *bson.Builder, i int) bson.Doc {
	at := e.At(i)
	return b.Timestamp("ts", at).Int64("t", int64(e.Term)).Int64("v", version).Date("wall", int64(at>>32)*1000).Finish()
}

// forms write what an operation does, by its kind.
var forms = [...]func(b *bson.Builder, op *catalog.Operation){
	catalog.OpInsert: func(b *bson.Builder, op *catalog.Operation) {
		head(b, "i", op).Doc("o", op.Doc)
		if id := op.Doc.Lookup("_id"); !id.IsMissing() { // measurements need none
			b.OpenDoc("o2").Value("_id", id).Close()
		}
	},
	catalog.OpUpdate: func(b *bson.Builder, op *catalog.Operation) {
		head(b, "u", op)
		if diff, ok := Diff(op.Old, op.Doc); ok {
			b.OpenDoc("o").Int32("$v", 2).Doc("diff", diff).Close()
		} else {
			b.Doc("o", op.Doc)
		}
		b.OpenDoc("o2").Value("_id", op.Doc.Lookup("_id")).Close()
	},
	catalog.OpReplace: func(b *bson.Builder, op *catalog.Operation) {
		head(b, "u", op).Doc("o", op.Doc).OpenDoc("o2").Value("_id", op.Doc.Lookup("_id")).Close()
	},
	catalog.OpDelete:  func(b *bson.Builder, op *catalog.Operation) { head(b, "d", op).Doc("o", op.Doc) },
	catalog.OpRange:   formRange,
	catalog.OpCommand: formCommand,
}

// head writes which operation it is, and on what.
func head(b *bson.Builder, kind string, op *catalog.Operation) *bson.Builder {
	b.String("op", kind).String("ns", op.Namespace.String())
	if op.UUID != (catalog.UUID{}) {
		b.Binary("ui", 4, op.UUID[:])
	}
	return b
}

// formRange tells of documents that went as a range: MongoDB has no such operation,
// so that readers pass over it as a noop. o2 has {ranges: [{from, to}], documents, bytes,
// reason}.
func formRange(b *bson.Builder, op *catalog.Operation) {
	head(b, "n", op).Doc("o", Note("expired range")).Doc("o2", op.Doc)
}

// formCommand tells of DDL, on the database's $cmd.
func formCommand(b *bson.Builder, op *catalog.Operation) {
	on := *op
	on.Namespace.Coll = "$cmd"
	head(b, "c", &on)
	if name, v := op.Doc.First(); name != "create" || v.Type != bson.TypeString || op.Doc.Has("viewOn") || op.Doc.Has("timeseries") || op.Doc.Has("clusteredIndex") || op.Doc.Has("idIndex") {
		b.Doc("o", op.Doc)
		return
	}
	b.OpenDoc("o").Fields(op.Doc).OpenDoc("idIndex").Int32("v", 2).OpenDoc("key").Int32("_id", 1).Close().String("name", "_id_").Close().Close()
}
