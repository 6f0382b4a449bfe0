package catalog

import (
	"encoding/binary"
	"fmt"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog/layout"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// OperationKind is what an operation does.
type OperationKind uint8

// The kinds, with what Operation.Doc is.
const (
	OpInsert  OperationKind = iota + 1 // the document
	OpUpdate                           // the document as it is now; Old is what it was
	OpDelete                           // {_id}
	OpRange                            // what went as a range: {ranges: [{from, to}], documents, bytes, reason}
	OpCommand                          // a command, as MongoDB's oplog has it: {create: …}, {drop: …}, {renameCollection: …} and so on
	OpReplace                          // as OpUpdate, where the client gave the whole document
	opKinds
)

// Operation is what an effect does to a document, a range of them, or a collection,
// as an oplog tells it. An effect has them where the catalog records operations
// (Options.Operations): of users' documents, and not of what the server makes of
// them, such as buckets that are sealed.
type Operation struct {
	Kind OperationKind
	// Statement is the number of the statement in the session's operation, or -1.
	Statement int32
	Namespace schema.Namespace
	UUID      UUID // zero for a command on a database
	Doc, Old  bson.Doc
}

// Session says whose operations those of an effect are.
type Session struct {
	ID  bson.Doc // lsid; nil for none
	Txn int64    // txnNumber
}

// operations are those of an effect, encoded as they come:
//
//	number of operations, 0 for none, and then nothing
//	lsid, behind its length, which is 0 for none ‖ txnNumber
//	number of collections ‖ for each: UUID, and database and name behind their
//	lengths
//	for each operation: kind, one byte ‖ statement + 1 ‖ number of the collection ‖
//	Doc, behind its length; of an update how many bytes of Doc are those of Old at
//	its beginning, and at its end, and the ones in between, behind their length
type operations struct {
	on        bool // they are wanted
	replaces  bool // the next updates are replacements
	session   Session
	statement int32 // of the next operation, + 1
	n         int
	at        []place
	bytes     []byte
}

// place is where operations are.
type place struct {
	uuid UUID
	ns   schema.Namespace
}

// in is the number of a place.
func (o *operations) in(p place) uint64 {
	for i := len(o.at) - 1; i >= 0; i-- {
		if o.at[i] == p {
			return uint64(i)
		}
	}
	o.at = append(o.at, p)
	return uint64(len(o.at) - 1)
}

// add records an operation.
func (o *operations) add(kind OperationKind, p place, doc bson.Doc) {
	o.n++
	o.bytes = binary.AppendUvarint(append(o.bytes, byte(kind)), uint64(o.statement))
	o.bytes = storage.AppendSized(binary.AppendUvarint(o.bytes, o.in(p)), doc)
}

// update records that a document was old and is doc.
func (o *operations) update(p place, old, doc bson.Doc) {
	kind := OpUpdate
	if o.replaces {
		kind = OpReplace
	}
	o.add(kind, p, doc)
	least := min(len(old), len(doc))
	first := 0
	for first < least && old[first] == doc[first] {
		first++
	}
	last := 0
	for last < least-first && old[len(old)-1-last] == doc[len(doc)-1-last] {
		last++
	}
	o.bytes = binary.AppendUvarint(binary.AppendUvarint(o.bytes, uint64(first)), uint64(last))
	o.bytes = storage.AppendSized(o.bytes, old[first:len(old)-last])
}

// append appends the encoding.
func (o *operations) append(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(o.n))
	if o.n == 0 {
		return dst
	}
	dst = binary.AppendVarint(storage.AppendSized(dst, o.session.ID), o.session.Txn)
	dst = binary.AppendUvarint(dst, uint64(len(o.at)))
	for _, p := range o.at {
		dst = storage.AppendSized(append(dst, p.uuid[:]...), []byte(p.ns.DB))
		dst = storage.AppendSized(dst, []byte(p.ns.Coll))
	}
	return append(dst, o.bytes...)
}

// readHead reads what stands in front of the operations, and how many there are.
func (o *operations) readHead(r *storage.EncodingReader) (n int) {
	count := r.Uvarint()
	if count == 0 || r.Bad {
		return 0
	}
	o.on = true
	if id := r.Sized(); len(id) > 0 {
		o.session.ID = clone(id)
		r.Bad = r.Bad || bson.Validate(o.session.ID, maxDescriptorDepth) != nil
	}
	o.session.Txn = r.Varint()
	for k := r.Uvarint(); k > 0 && !r.Bad; k-- {
		var p place
		copy(p.uuid[:], r.Bytes(uint64(len(p.uuid))))
		p.ns = schema.Namespace{DB: string(r.Sized()), Coll: string(r.Sized())}
		o.at = append(o.at, p)
	}
	if r.Bad || count > uint64(len(r.Rest)) {
		r.Bad = true
		return 0
	}
	return int(count)
}

// read takes what append has made from r, and keeps the bytes of operations.
func (o *operations) read(r *storage.EncodingReader) {
	if o.n = o.readHead(r); o.n == 0 {
		return
	}
	o.bytes = clone(r.Rest)
	all, rest := o.all(r)
	r.Bad, r.Rest = r.Bad || len(all) != o.n, rest
	o.bytes = o.bytes[:len(o.bytes)-len(rest)]
}

// all are the operations, and what follows them. Where they are damaged, r is bad.
func (o *operations) all(r *storage.EncodingReader) (all []Operation, rest []byte) {
	b := storage.EncodingReader{Rest: o.bytes}
	for range o.n {
		kind := b.Bytes(1)
		op := Operation{Statement: int32(b.Uvarint()) - 1}
		at := b.Uvarint()
		op.Doc = b.Sized()
		if b.Bad || kind[0] == 0 || kind[0] >= byte(opKinds) || at >= uint64(len(o.at)) || !validDocument(op.Doc) {
			r.Bad = true
			return nil, nil
		}
		op.Kind, op.Namespace, op.UUID = OperationKind(kind[0]), o.at[at].ns, o.at[at].uuid
		if op.Kind == OpUpdate || op.Kind == OpReplace {
			first, last, middle := b.Uvarint(), b.Uvarint(), b.Sized()
			if size := uint64(len(op.Doc)); b.Bad || first > size || last > size-first {
				r.Bad = true
				return nil, nil
			}
			op.Old = append(append(append(bson.Doc(nil), op.Doc[:first]...), middle...), op.Doc[uint64(len(op.Doc))-last:]...)
			if !validDocument(op.Old) {
				r.Bad = true
				return nil, nil
			}
		}
		all = append(all, op)
	}
	return all, b.Rest
}

// maxOperationDepth bounds the nesting of what an operation tells: that of a
// document, or a descriptor in a command.
const maxOperationDepth = maxDescriptorDepth + 2

func validDocument(d bson.Doc) bool { return bson.Validate(d, maxOperationDepth) == nil }

// Operations are those that the effect has recorded, in their order, and whose
// they are.
func (e *Effect) Operations() ([]Operation, Session, error) {
	var r storage.EncodingReader
	all, rest := e.ops.all(&r)
	if r.Bad || len(rest) > 0 {
		return nil, Session{}, fmt.Errorf("%w: the operations of an effect are damaged", storage.ErrCorruption)
	}
	return all, e.ops.session, nil
}

// DecodeOperations reads the operations alone of an encoded effect, and whose they are.
// They share its bytes, which nobody has checked against their checksum since they
// were stored. Errors: storage.ErrCorruption.
func DecodeOperations(b []byte) ([]Operation, Session, error) {
	damaged := fmt.Errorf("%w: the operations of an effect are damaged", storage.ErrCorruption)
	if len(b) < effectHeader || b[0] != effectVersion {
		return nil, Session{}, damaged
	}
	rest, err := storage.SkipUnit(b[effectHeader:])
	if err != nil {
		return nil, Session{}, err
	}
	r := storage.EncodingReader{Rest: rest}
	for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
		r.Bytes(1)
		r.Uvarint()
		r.Sized()
	}
	var o operations
	n := o.readHead(&r)
	if n == 0 && !r.Bad {
		return nil, Session{}, nil
	}
	o.n, o.bytes = n, r.Rest
	all, rest := o.all(&r)
	if r.Bad || len(rest) > 0 {
		return nil, Session{}, damaged
	}
	return all, o.session, nil
}

// SetSession says whose operations the unit's are, for who records them.
func (u *Unit) SetSession(s Session) { u.e.ops.session = s }

// SetStatement says which statement of the session's operation the next writes are,
// from 0 on.
func (u *Unit) SetStatement(n int32) { u.e.ops.statement = n + 1 }

// SetReplacement says whether the next updates give whole documents.
func (u *Unit) SetReplacement(is bool) { u.e.ops.replaces = is }

// OperationCount is how many operations the effect has recorded.
func (e *Effect) OperationCount() int { return e.ops.n }

// placeOps is where operations on the collection's documents are.
func (c *Collection) placeOps() place { return place{c.UUID, c.Namespace} }

// recordDelete records that a document is gone.
func (u *Unit) recordDelete(c *Collection, old bson.Doc) {
	u.e.ops.add(OpDelete, c.placeOps(), new(bson.Builder).Value("_id", old.Lookup("_id")).Finish())
}

// recordRange records that the records of some windows went as a range, by a rule.
func (e *Effect) recordRange(coll *Collection, spans []layout.Span, sum [windowSums]int64, rule string) {
	if !e.ops.on {
		return
	}
	ranges := make([]layout.KeyRange, len(spans))
	for i, s := range spans {
		ranges[i] = layout.KeyRange{From: layout.AppendSection(nil, s.From), To: layout.AppendSection(nil, s.To)}
	}
	e.recordKeys(coll, ranges, sum, rule)
}

// recordKeys records that some ranges of records went, by a rule.
func (e *Effect) recordKeys(coll *Collection, ranges []layout.KeyRange, sum [windowSums]int64, rule string) {
	if !e.ops.on {
		return
	}
	var b bson.Builder
	b.OpenArray("ranges")
	for i, r := range ranges {
		b.OpenDoc(bson.Index(i)).Binary("from", 0, r.From).Binary("to", 0, r.To).Close()
	}
	b.Close().Int64("documents", sum[windowDocs]).Int64("bytes", sum[windowSize]).String("reason", rule)
	e.ops.add(OpRange, coll.placeOps(), b.Finish())
}

// command records a command on a collection, made by f behind {name: collection}.
func (t *change) command(coll *Collection, name string, f func(b *bson.Builder)) {
	if !t.e.ops.on || coll.own() {
		return
	}
	b := new(bson.Builder).String(name, coll.Namespace.Coll)
	if f != nil {
		f(b)
	}
	t.e.ops.add(OpCommand, coll.placeOps(), b.Finish())
}

// recordIndexes records commands that make new indexes: of those that are ready one
// for each, of others that their build has begun.
func (t *change) recordIndexes(coll *Collection, added []*Index, b *build) {
	if b != nil {
		t.recordBuild(coll, "startIndexBuild", b)
		return
	}
	for _, ix := range added {
		t.command(coll, "createIndexes", func(b *bson.Builder) { b.Fields(ix.Spec) })
	}
}

// recordBuild records that a build has begun or ended.
func (t *change) recordBuild(coll *Collection, name string, b *build) {
	t.command(coll, name, func(d *bson.Builder) {
		d.Binary("indexBuildUUID", uuidSubtype, b.id[:]).OpenArray("indexes")
		for i, ix := range b.indexes {
			d.Doc(bson.Index(i), ix.Spec)
		}
		d.Close()
	})
}

// recordModification records commands that change options and indexes: what is not
// as it was.
func (t *change) recordModification(was, is *Collection) {
	if options := changed(was.Options, is.Options); len(options) > len(bson.Empty) {
		t.command(is, "collMod", func(b *bson.Builder) { b.Fields(options) })
	}
	for i, ix := range is.indexes {
		if spec := changed(was.indexes[i].Spec, ix.Spec); len(spec) > len(bson.Empty) {
			t.command(is, "collMod", func(b *bson.Builder) { b.OpenDoc("index").String("name", ix.Name).Fields(spec).Close() })
		}
	}
}

// changed are the fields of a document that another one has not, or has otherwise;
// those that are no more are null.
func changed(was, is bson.Doc) bson.Doc {
	var b bson.Builder
	b.Reset(nil)
	for name, v := range is.All() {
		if w := was.Lookup(name); w.Type != v.Type || string(w.Data) != string(v.Data) {
			b.Value(name, v)
		}
	}
	for name := range was.All() {
		if !is.Has(name) {
			b.Value(name, bson.Null)
		}
	}
	return b.Finish()
}
