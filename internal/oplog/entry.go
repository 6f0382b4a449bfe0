package oplog

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
)

// version is the "v" of documents: that of MongoDB's oplog since 2.6.
const version = 2

// Entry is the part of a log entry that its documents show.
type Entry struct {
	// Time is the time of its last document, as a BSON timestamp. Earlier documents
	// have the times before it, one each.
	Time uint64
	Term uint64
	// Session is the session that sent the operations. Where there are none, Note is the
	// text of a noop; nil for an entry without documents.
	Session catalog.Session
	Note    bson.Doc

	operations []catalog.Operation
	// ends are, of each operation, how many documents there are up to its last one; nil
	// where each has one. Of a transaction they are, of each document, how many operations
	// there are up to its last one.
	ends        []int
	transaction bool
}

// Note returns the text of a noop that the server itself writes.
func Note(message string) bson.Doc { return new(bson.Builder).String("msg", message).Finish() }

// SetOperations sets the operations of a write.
func (e *Entry) SetOperations(all []catalog.Operation) {
	e.operations, e.ends = all, nil
	if e.transaction = e.Session.ID != nil && len(all) > 0 && all[0].Statement < 0; e.transaction {
		e.setParts()
		return
	}
	for i := range all {
		if all[i].Kind == catalog.OpExpired {
			e.setEnds()
			return
		}
	}
}

func (e *Entry) setEnds() {
	n := 0
	for i := range e.operations {
		n += e.operations[i].Count()
		e.ends = append(e.ends, n)
	}
}

// maxApplyOps bounds the operations in one document of a transaction, in bytes: the rest are
// in further ones.
const maxApplyOps = 12 << 20

// setParts divides the operations of a transaction among its documents.
func (e *Entry) setParts() {
	size := 0
	for i := range e.operations {
		op := &e.operations[i]
		n := len(op.Doc) + len(op.Old)
		if size > 0 && size+n > maxApplyOps {
			e.ends, size = append(e.ends, i), 0
		}
		size += n
	}
	e.ends = append(e.ends, len(e.operations))
}

// Transaction reports whether the entry is a transaction: all its operations have its time.
func (e *Entry) Transaction() bool { return e.transaction }

// Len returns the number of documents.
func (e *Entry) Len() int {
	switch {
	case len(e.operations) == 0 && e.Note != nil:
		return 1
	case e.transaction:
		return len(e.ends)
	case e.ends != nil:
		return e.ends[len(e.ends)-1]
	}
	return len(e.operations)
}

// Changes returns the number of documents that the entry's operations changed, and of its
// commands; 1 for a noop.
func (e *Entry) Changes() int {
	if e.transaction {
		return len(e.operations)
	}
	return e.Len()
}

// Change is a change of one document, or a command.
type Change struct {
	*catalog.Operation // nil for a noop
	// Of is the document's number among those of the operation.
	Of int
	// Time is the change's own or, in a transaction, that of all; Number is its number among
	// those of that time.
	Time, Number uint64
}

// Change returns a change of the entry.
func (e *Entry) Change(i int) Change {
	switch {
	case len(e.operations) == 0:
		return Change{Time: e.Time}
	case e.transaction:
		return Change{Operation: &e.operations[i], Time: e.Time, Number: uint64(i)}
	}
	op, of := e.operation(i)
	return Change{Operation: op, Of: of, Time: e.At(i)}
}

// operation returns the operation that document i shows, and its number among the
// operation's documents.
func (e *Entry) operation(i int) (op *catalog.Operation, of int) {
	if e.ends == nil {
		return &e.operations[i], 0
	}
	k, _ := slices.BinarySearch(e.ends, i+1)
	return &e.operations[k], i - (e.ends[k] - e.operations[k].Count())
}

// At returns the time of a document.
func (e *Entry) At(i int) uint64 { return e.Time - uint64(e.Len()-1-i) }

// Document writes a document of the entry into b, which is empty.
func (e *Entry) Document(b *bson.Builder, i int) bson.Doc {
	if len(e.operations) == 0 {
		b.String("op", "n").String("ns", "").Doc("o", e.Note)
		return e.end(b, i)
	}
	if e.transaction {
		return e.applyOps(b, i)
	}
	op, of := e.operation(i)
	session := e.Session.ID != nil && op.Statement >= 0
	if session {
		b.Doc("lsid", e.Session.ID).Int64("txnNumber", e.Session.Txn)
	}
	if op.Kind == catalog.OpExpired {
		op.AppendKey(head(b, "d", op).OpenDoc("o"), of).Close()
	} else {
		forms[op.Kind](b, op)
	}
	if session {
		b.Int32("stmtId", op.Statement)
	}
	return e.end(b, i)
}

// applyOps writes a document of a transaction: {op: "c", ns: "admin.$cmd", o: {applyOps:
// […]}}. All but the last are partial, and the last one has the number of operations where
// there are several. prevOpTime is the time of the one before.
func (e *Entry) applyOps(b *bson.Builder, i int) bson.Doc {
	from := 0
	if i > 0 {
		from = e.ends[i-1]
	}
	b.Doc("lsid", e.Session.ID).Int64("txnNumber", e.Session.Txn).String("op", "c").String("ns", "admin.$cmd")
	b.OpenDoc("o").OpenArray("applyOps")
	for k := from; k < e.ends[i]; k++ {
		b.OpenDoc(bson.Index(k - from))
		op := &e.operations[k]
		forms[op.Kind](b, op)
		b.Close()
	}
	b.Close()
	switch last := i == len(e.ends)-1; {
	case !last:
		b.Bool("partialTxn", true)
	case i > 0:
		b.Int64("count", int64(len(e.operations)))
	}
	b.Close()
	e.time(b, i).OpenDoc("prevOpTime")
	if i == 0 {
		b.Timestamp("ts", 0).Int64("t", -1)
	} else {
		b.Timestamp("ts", e.At(i-1)).Int64("t", int64(e.Term))
	}
	return b.Close().Finish()
}

// end writes the time, and ends the document.
func (e *Entry) end(b *bson.Builder, i int) bson.Doc { return e.time(b, i).Finish() }

func (e *Entry) time(b *bson.Builder, i int) *bson.Builder {
	at := e.At(i)
	return b.Timestamp("ts", at).Int64("t", int64(e.Term)).Int64("v", version).Date("wall", int64(at>>32)*1000)
}

// forms write an operation that takes one document, by its kind.
var forms = [...]func(b *bson.Builder, op *catalog.Operation){
	catalog.OpInsert: func(b *bson.Builder, op *catalog.Operation) {
		head(b, "i", op).Doc("o", op.Doc)
		if id := op.Doc.Lookup("_id"); !id.IsMissing() { // measurements have none
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

// head writes the kind of the operation, and its namespace.
func head(b *bson.Builder, kind string, op *catalog.Operation) *bson.Builder {
	b.String("op", kind).String("ns", op.Namespace.String())
	if op.UUID != (catalog.UUID{}) {
		b.Binary("ui", 4, op.UUID[:])
	}
	return b
}

// formRange writes the removal of documents as a range: MongoDB has no such operation, so
// it is a noop, which readers skip. o2 has {ranges: [{from, to}], documents, bytes,
// reason}.
func formRange(b *bson.Builder, op *catalog.Operation) {
	head(b, "n", op).Doc("o", Note("expired range")).Doc("o2", op.Doc)
}

// formCommand writes DDL, on the database's $cmd.
func formCommand(b *bson.Builder, op *catalog.Operation) {
	on := *op
	on.Namespace.Coll = "$cmd"
	head(b, "c", &on)
	formBody(b, op.Doc)
	if op.Old != nil {
		b.Doc("o2", op.Old)
	}
}

// formBody writes what the command is.
func formBody(b *bson.Builder, doc bson.Doc) {
	name, v := doc.First()
	if name != "create" || v.Type != bson.TypeString || doc.Has("viewOn") || doc.Has("timeseries") || doc.Has("clusteredIndex") || doc.Has("idIndex") {
		b.Doc("o", doc)
		return
	}
	b.OpenDoc("o").Fields(doc).OpenDoc("idIndex").Int32("v", 2).OpenDoc("key").Int32("_id", 1).Close().String("name", "_id_").Close().Close()
}
