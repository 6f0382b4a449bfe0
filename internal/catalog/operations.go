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

// The kinds, and what Operation.Doc is for each.
const (
	OpInsert  OperationKind = iota + 1 // the document
	OpUpdate                           // the document as it is now; Old is what it was
	OpDelete                           // its document key: {_id}, where Key is set with the fields of that; Old is what it was, where Images is set
	OpRange                            // a removal of ranges, not listed one by one: {ranges: [{from, to}], documents, bytes, reason}
	OpCommand                          // a command, as MongoDB's oplog has it: {create: …}, {drop: …}, {renameCollection: …} and so on; Old is its o2, if it has one
	OpReplace                          // as OpUpdate, where the client gave the whole document
	OpExpired                          // a removal of documents as a range, with a list of all: {reason}
	opKinds
)

// Operation is what an effect does to a document, a range of them, or a collection,
// for an oplog. An effect has them where the catalog records operations
// (Options.Operations): on users' documents, and not on what the server makes of
// them, such as sealed buckets.
type Operation struct {
	Kind OperationKind
	// Statement is the number of the statement in the session's operation, or -1.
	Statement int32
	Namespace schema.Namespace
	UUID      UUID // zero for a command on a database
	Doc, Old  bson.Doc
	IDs       []bson.Value // the _ids of an OpExpired
	Keys      []bson.Doc   // the document keys of an OpExpired, where Key is set and Images is not; else nil
	// Key is the pattern of the collection's shard key, where document keys have more than _id.
	Key  bson.Doc
	Docs []bson.Doc // its documents, where Images is set; else nil
	// Images says that the collection kept pre- and post-images of its documents.
	Images bool
	// Silent says that change streams do not tell of it: documents were moved between
	// shards, or are measurements, or it is DDL on what is no collection.
	Silent bool
	// Internal says that it is a command by which an operation of the cluster makes or drops
	// what a shard has of a collection: what clients have asked for, another shard tells.
	Internal bool
	// Rule is the name of the rule by which documents expired that were deleted; Due, if
	// not 0, when that was, in milliseconds since 1970.
	Rule string
	Due  int64
}

// Before returns what a document of the operation was before it; nil if that is not
// known.
func (o *Operation) Before(of int) bson.Doc {
	if o.Kind != OpExpired {
		return o.Old
	}
	if o.Docs == nil {
		return nil
	}
	return o.Docs[of]
}

// AppendKey writes the document key of the operation, or of one of its documents.
func (o *Operation) AppendKey(b *bson.Builder, of int) *bson.Builder {
	switch {
	case o.Kind == OpDelete:
		return b.Fields(o.Doc)
	case o.Kind == OpExpired && o.Keys != nil:
		return b.Fields(o.Keys[of])
	case o.Kind == OpExpired && (o.Docs == nil || o.Key == nil):
		return b.Value("_id", o.IDs[of])
	case o.Kind == OpExpired:
		return schema.KeyOfDocument(b, o.Key, o.Docs[of])
	case o.Key != nil:
		return schema.KeyOfDocument(b, o.Key, o.Doc)
	}
	return b.Value("_id", o.Doc.Lookup("_id"))
}

// Session identifies the session whose operations an effect has.
type Session struct {
	ID  bson.Doc // lsid; nil for none
	Txn int64    // txnNumber
}

// Count returns how many documents of the oplog the operation has.
func (o *Operation) Count() int {
	if o.Kind == OpExpired {
		return len(o.IDs)
	}
	return 1
}

// operations are those of an effect, encoded so:
//
//	number of operations, 0 for none, and then nothing
//	lsid, behind its length, which is 0 for none ‖ txnNumber
//	number of places ‖ for each: UUID, database and name behind their lengths, flags
//	(one byte), and where it says so the name of a rule, and the pattern of a shard key,
//	each behind its length
//	for each operation: kind, one byte ‖ statement + 1 ‖ number of the place ‖
//	Doc: where it is in the unit's batch, and its length; or 0, and Doc behind its
//	length; of an update how many bytes of Doc are those of Old at its beginning, and
//	at its end, and the ones in between, behind their length; of a delete Old behind its
//	length, where the place keeps images, and where it has a rule when the document was
//	due; of a command Old behind its length, which is 0 for none; of what expired as a
//	range the number of documents, and, behind the length of all, of each the type and
//	the bytes of its _id, or the document where the place keeps images, or the
//	document key where it has a shard key
//
// Version 3 of the encoding of effects has no shard keys. Version 2 of the encoding of effects has no flags, and Old only of updates. In
// version 1 each Doc is there, after its length, so that an insert was in the log twice.
type operations struct {
	on        bool // they are recorded
	replaces  bool // the next updates are replacements
	session   Session
	statement int32 // of the next operation, + 1
	count     int   // of the documents of the oplog
	counts    OperationCounts
	at        []place
	all       []recorded
	bytes     []byte // the bytes of all operations, in addition to the batch
	// encoded is the encoding, of an effect that was decoded; version is the effect's.
	encoded []byte
	version byte
}

// place is the namespace of operations, and what else they have in common.
type place struct {
	uuid  UUID
	ns    schema.Namespace
	flags placeFlags
	rule  string // by which documents expire; "" for none
	key   string // the pattern of the shard key, where document keys have more than _id; else ""
}

// placeFlags say what applies to the operations of a place.
type placeFlags byte

const (
	placeImages   placeFlags = 1 << iota // Operation.Images
	placeSilent                          // Operation.Silent
	placeRule                            // there is a rule
	placeKey                             // there is a shard key
	placeInternal                        // Operation.Internal
	placeAll      = placeInternal<<1 - 1
	placeBefore   = placeRule<<1 - 1 // what version 3 knows
)

// append appends the encoding of a place.
func (p *place) append(dst []byte) []byte {
	dst = storage.AppendSized(append(dst, p.uuid[:]...), []byte(p.ns.DB))
	dst = storage.AppendSized(dst, []byte(p.ns.Coll))
	flags := p.flags
	if p.rule != "" {
		flags |= placeRule
	}
	if p.key != "" {
		flags |= placeKey
	}
	if dst = append(dst, byte(flags)); p.rule != "" {
		dst = storage.AppendSized(dst, []byte(p.rule))
	}
	if p.key != "" {
		dst = storage.AppendSized(dst, []byte(p.key))
	}
	return dst
}

// read reads a place from an effect of some version.
func (p *place) read(r *storage.EncodingReader, version byte) {
	copy(p.uuid[:], r.Bytes(uint64(len(p.uuid))))
	p.ns = schema.Namespace{DB: string(r.Sized()), Coll: string(r.Sized())}
	if version < 3 {
		return
	}
	p.flags = placeFlags(r.Bytes(1)[0])
	if p.flags&placeRule != 0 {
		p.rule = string(r.Sized())
	}
	if p.flags&placeKey != 0 {
		p.key = string(r.Sized())
		r.Bad = r.Bad || !validDocument(bson.Doc(p.key))
	}
	known := placeFlags(placeAll)
	if version == 3 {
		known = placeBefore
	}
	r.Bad = r.Bad || p.flags&^known != 0
	p.flags &^= placeRule | placeKey
}

// recorded is an operation in the form kept until the effect is encoded.
type recorded struct {
	kind      OperationKind
	statement int32 // + 1
	at        uint32
	write     int // the number of the unit's write whose value is Doc; noWrite for none
	from, to  int // its bytes: Doc, after its length, unless the batch has it, and the rest
}

// noWrite says that no write of the unit has the operation's document.
const noWrite = -1

// in returns the number of a place.
func (o *operations) in(p place) uint32 {
	for i := len(o.at) - 1; i >= 0; i-- {
		if o.at[i] == p {
			return uint32(i)
		}
	}
	o.at = append(o.at, p)
	return uint32(len(o.at) - 1)
}

// add records an operation. write is the number of the unit's write that has doc as its
// value, or noWrite.
func (o *operations) add(kind OperationKind, p place, doc bson.Doc, write int) {
	o.count++
	from := len(o.bytes)
	if write == noWrite {
		o.bytes = storage.AppendSized(o.bytes, doc)
	}
	o.all = append(o.all, recorded{kind, o.statement, o.in(p), write, from, len(o.bytes)})
}

// update records that a document was old and is doc; write is as for add.
func (o *operations) update(p place, old, doc bson.Doc, write int) {
	kind := OpUpdate
	if o.replaces {
		kind = OpReplace
	}
	o.add(kind, p, doc, write)
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
	o.all[len(o.all)-1].to = len(o.bytes)
}

// expired records that documents were removed as a range: doc has the reason, ids
// their _ids.
func (o *operations) expired(p place, doc bson.Doc, ids *idList) {
	o.add(OpExpired, p, doc, noWrite)
	o.count += ids.n - 1
	o.bytes = storage.AppendSized(binary.AppendUvarint(o.bytes, uint64(ids.n)), ids.bytes)
	o.all[len(o.all)-1].to = len(o.bytes)
}

// append appends the encoding, for a unit that is sealed.
func (o *operations) append(dst []byte, u *storage.Unit) []byte {
	if o.encoded != nil {
		return append(dst, o.encoded...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(o.all)))
	if len(o.all) == 0 {
		return dst
	}
	dst = binary.AppendVarint(storage.AppendSized(dst, o.session.ID), o.session.Txn)
	dst = binary.AppendUvarint(dst, uint64(len(o.at)))
	for i := range o.at {
		dst = o.at[i].append(dst)
	}
	values := u.Values()
	for i := range o.all {
		op := &o.all[i]
		dst = binary.AppendUvarint(append(dst, byte(op.kind)), uint64(op.statement))
		dst = binary.AppendUvarint(dst, uint64(op.at))
		if op.write == noWrite {
			dst = append(dst, 0)
		} else {
			v := values[op.write]
			dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(v.From)), uint64(v.Len))
		}
		dst = append(dst, o.bytes[op.from:op.to]...)
	}
	return dst
}

// read reads from r what append has written, for an effect of some version with that
// batch, and keeps it.
func (o *operations) read(r *storage.EncodingReader, version byte, batch []byte) {
	from := r.Rest
	var room [1]Operation // most effects have one
	all, _ := parseOperations(r, version, batch, room[:0])
	if r.Bad {
		return
	}
	o.encoded, o.version = from[:len(from)-len(r.Rest)], version
	for i := range all {
		o.count += all[i].Count()
		o.counts.count(&all[i])
	}
}

// OperationCounts are numbers of documents and commands.
type OperationCounts struct{ Inserted, Updated, Deleted, Commands int64 }

// Add adds other counts.
func (n *OperationCounts) Add(o OperationCounts) {
	n.Inserted += o.Inserted
	n.Updated += o.Updated
	n.Deleted += o.Deleted
	n.Commands += o.Commands
}

func (n *OperationCounts) count(o *Operation) {
	switch o.Kind {
	case OpInsert:
		n.Inserted++
	case OpUpdate, OpReplace:
		n.Updated++
	case OpDelete, OpExpired:
		n.Deleted += int64(o.Count())
	case OpCommand:
		n.Commands++
	}
}

// OperationCounts counts the operations of an effect that was decoded.
func (e *Effect) OperationCounts() OperationCounts { return e.ops.counts }

// parseOperations reads operations, into room where they fit, and their session. Where they
// are damaged, r is bad.
func parseOperations(r *storage.EncodingReader, version byte, batch []byte, room []Operation) (all []Operation, s Session) {
	count := r.Uvarint()
	if count == 0 || r.Bad {
		return nil, s
	}
	if id := r.Sized(); len(id) > 0 {
		s.ID = clone(id)
		r.Bad = r.Bad || bson.Validate(s.ID, maxDescriptorDepth) != nil
	}
	s.Txn = r.Varint()
	var at []place
	for k := r.Uvarint(); k > 0 && !r.Bad; k-- {
		var p place
		p.read(r, version)
		at = append(at, p)
	}
	if r.Bad = r.Bad || count > uint64(len(r.Rest)); r.Bad {
		return nil, s
	}
	if uint64(cap(room)) < count {
		room = make([]Operation, count)
	}
	all = room[:count]
	for i := range all {
		if all[i].parse(r, version, batch, at); r.Bad {
			return nil, s
		}
	}
	return all, s
}

// parse reads an operation.
func (o *Operation) parse(r *storage.EncodingReader, version byte, batch []byte, places []place) {
	kind := r.Bytes(1)
	o.Statement = int32(r.Uvarint()) - 1
	at := r.Uvarint()
	from := uint64(0)
	if version > 1 {
		from = r.Uvarint()
	}
	if from == 0 {
		o.Doc = r.Sized()
	} else {
		o.Doc = (&storage.EncodingReader{Rest: batch[min(from, uint64(len(batch))):]}).Bytes(r.Uvarint())
	}
	if r.Bad || kind[0] == 0 || kind[0] >= byte(opKinds) || at >= uint64(len(places)) || !validDocument(o.Doc) {
		r.Bad = true
		return
	}
	p := &places[at]
	o.Kind, o.Namespace, o.UUID, o.Rule = OperationKind(kind[0]), p.ns, p.uuid, p.rule
	o.Images, o.Silent, o.Internal = p.flags&placeImages != 0, p.flags&placeSilent != 0, p.flags&placeInternal != 0
	if p.key != "" {
		o.Key = bson.Doc(p.key)
	}
	switch o.Kind {
	case OpDelete:
		if o.Images {
			o.parseOld(r)
		}
		if o.Rule != "" {
			o.Due = r.Varint()
		}
	case OpCommand:
		if version > 2 {
			o.parseOld(r)
		}
	case OpUpdate, OpReplace:
		first, last, middle := r.Uvarint(), r.Uvarint(), r.Sized()
		if size := uint64(len(o.Doc)); r.Bad || first > size || last > size-first {
			r.Bad = true
			return
		}
		o.Old = append(append(append(bson.Doc(nil), o.Doc[:first]...), middle...), o.Doc[uint64(len(o.Doc))-last:]...)
		r.Bad = !validDocument(o.Old)
	case OpExpired:
		o.parseIDs(r)
	}
}

// parseOld reads Old, which may be absent.
func (o *Operation) parseOld(r *storage.EncodingReader) {
	if old := r.Sized(); len(old) > 0 {
		o.Old = old
		r.Bad = r.Bad || !validDocument(o.Old)
	}
}

// parseIDs reads the _ids of an OpExpired, or its documents.
func (o *Operation) parseIDs(r *storage.EncodingReader) {
	n, list := r.Uvarint(), r.Sized()
	if r.Bad = r.Bad || n == 0 || n > uint64(len(list)); r.Bad {
		return
	}
	o.IDs = make([]bson.Value, n)
	keyed := o.Key != nil && !o.Images
	switch {
	case o.Images:
		o.Docs = make([]bson.Doc, n)
	case keyed:
		o.Keys = make([]bson.Doc, n)
	}
	for i := range o.IDs {
		var ok bool
		if o.Images {
			if o.Docs[i], list, ok = cutDocument(list); !ok {
				r.Bad = true
				return
			}
			o.IDs[i] = o.Docs[i].Lookup("_id")
			continue
		}
		if keyed {
			if o.Keys[i], list, ok = cutDocument(list); !ok {
				r.Bad = true
				return
			}
			o.IDs[i] = o.Keys[i].Lookup("_id")
			continue
		}
		if o.IDs[i], list, ok = bson.CutTyped(list); !ok || !validID(o.IDs[i]) {
			r.Bad = true
			return
		}
	}
	r.Bad = len(list) > 0
}

// cutDocument reads a document off the front of a list.
func cutDocument(list []byte) (d bson.Doc, rest []byte, ok bool) {
	if len(list) < 4 {
		return nil, nil, false
	}
	size := binary.LittleEndian.Uint32(list)
	if uint64(size) > uint64(len(list)) {
		return nil, nil, false
	}
	d = list[:size:size]
	return d, list[size:], validDocument(d) && d.Has("_id")
}

// validID reports whether the bytes of an _id are valid.
func validID(v bson.Value) bool {
	return v.Type != bson.TypeDocument && v.Type != bson.TypeArray || validDocument(v.Doc())
}

// maxOperationDepth bounds the nesting of an operation's document: that of a
// document, or a descriptor in a command.
const maxOperationDepth = maxDescriptorDepth + 2

func validDocument(d bson.Doc) bool { return bson.Validate(d, maxOperationDepth) == nil }

// Operations returns the operations of a decoded effect, in order, and their
// session. They do not share the effect's memory.
func (e *Effect) Operations() ([]Operation, Session, error) {
	r := storage.EncodingReader{Rest: e.ops.encoded}
	if e.ops.encoded == nil {
		return nil, Session{}, nil
	}
	all, session := parseOperations(&r, e.ops.version, clone(e.u.Batch()), nil)
	if r.Bad || len(r.Rest) > 0 {
		return nil, Session{}, fmt.Errorf("%w: the operations of an effect are damaged", storage.ErrCorruption)
	}
	return all, session, nil
}

// DecodeOperations reads only the operations of an encoded effect, and their session.
// They share its bytes, which are not checked against their checksum. Errors:
// storage.ErrCorruption.
func DecodeOperations(b []byte) ([]Operation, Session, error) {
	damaged := fmt.Errorf("%w: the operations of an effect are damaged", storage.ErrCorruption)
	if len(b) < effectHeader || !readableEffect(b[0]) {
		return nil, Session{}, damaged
	}
	batch, rest, err := storage.SkipUnit(b[effectHeader:])
	if err != nil {
		return nil, Session{}, err
	}
	r := storage.EncodingReader{Rest: rest}
	for n := r.Uvarint(); n > 0 && !r.Bad; n-- {
		r.Bytes(1)
		r.Uvarint()
		r.Sized()
	}
	all, session := parseOperations(&r, b[0], batch, nil)
	if r.Bad || len(r.Rest) > 0 {
		return nil, Session{}, damaged
	}
	return all, session, nil
}

// SetSession sets the session of the unit's operations, for their record.
func (u *Unit) SetSession(s Session) { u.e.ops.session = s }

// SetStatement sets the number, from 0 on, of the statement to which the next
// writes belong.
func (u *Unit) SetStatement(n int32) { u.e.ops.statement = n + 1 }

// SetReplacement reports whether the next updates give whole documents.
func (u *Unit) SetReplacement(is bool) { u.e.ops.replaces = is }

// OperationCount returns how many documents of the oplog the effect has.
func (e *Effect) OperationCount() int { return e.ops.count }

// placeOps returns the place of operations on the collection's documents.
func (c *Collection) placeOps() place {
	p := place{uuid: c.UUID, ns: c.Namespace}
	if c.Settings != nil && c.Settings.PreAndPostImages {
		p.flags = placeImages
	}
	p.key = c.documentKey()
	return p
}

// documentKey is the pattern of the shard key, where document keys have more than _id; else
// "".
func (c *Collection) documentKey() string {
	if c.sharding == nil || c.IsTimeseries() || len(c.sharding.Key.Parts) == 1 && c.sharding.Key.Parts[0].Path == "_id" {
		return ""
	}
	return c.sharding.Key.Stored()
}

// placeOps is that of the collection, for the unit's writes.
func (u *Unit) placeOps(c *Collection) place {
	p := c.placeOps()
	if u.Moving || u.Guard != nil && u.Guard.Keeps {
		p.flags |= placeSilent
	}
	return p
}

// documentKey writes the document key of a document.
func (p *place) documentKey(b *bson.Builder, doc bson.Doc) *bson.Builder {
	if p.key == "" {
		return b.Value("_id", doc.Lookup("_id"))
	}
	return schema.KeyOfDocument(b, bson.Doc(p.key), doc)
}

// recordDelete records that a document was removed.
func (u *Unit) recordDelete(c *Collection, old bson.Doc) {
	p, ops := u.placeOps(c), &u.e.ops
	if u.Expires != nil {
		p.rule = u.Expires.Name()
	}
	ops.add(OpDelete, p, p.documentKey(new(bson.Builder), old).Finish(), noWrite)
	if p.flags&placeImages != 0 {
		ops.bytes = storage.AppendSized(ops.bytes, old)
	}
	if p.rule != "" {
		due := u.Expires.Due(old)
		if due == schema.Never {
			due = 0
		}
		ops.bytes = binary.AppendVarint(ops.bytes, due)
	}
	ops.all[len(ops.all)-1].to = len(ops.bytes)
}

// recordKeys records that some ranges of records were removed, by a rule.
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
	e.ops.add(OpRange, coll.placeOps(), b.Finish(), noWrite)
}

// command records a command on a collection; f appends its fields after {name:
// collection}.
func (t *change) command(coll *Collection, name string, f func(b *bson.Builder)) {
	t.commandOver(coll, name, nil, f)
}

// commandOver is command, with what was there before.
func (t *change) commandOver(coll *Collection, name string, old bson.Doc, f func(b *bson.Builder)) {
	if !t.e.ops.on || coll.own() || coll.forming() {
		return
	}
	b := new(bson.Builder).String(name, coll.Namespace.Coll)
	if f != nil {
		f(b)
	}
	p := coll.placeOps()
	if coll.IsView() || coll.IsTimeseries() {
		p.flags |= placeSilent
	}
	t.recordCommand(p, b.Finish(), old)
}

// recordCommand records a command, and its o2, nil for none.
func (t *change) recordCommand(p place, doc, old bson.Doc) {
	p.key = ""
	if t.internal {
		p.flags |= placeInternal
	}
	t.e.ops.command(p, doc, old)
}

// dropsIndex records that an index is dropped.
func (t *change) dropsIndex(coll *Collection, ix *Index) {
	t.commandOver(coll, "dropIndexes", ix.Spec, func(b *bson.Builder) { b.String("index", ix.Name) })
}

// command records a command, and its o2, nil for none.
func (o *operations) command(p place, doc, old bson.Doc) {
	o.add(OpCommand, p, doc, noWrite)
	o.bytes = storage.AppendSized(o.bytes, old)
	o.all[len(o.all)-1].to = len(o.bytes)
}

// recordIndexes records commands that create indexes: one for each that is ready,
// and the beginning of the build for the others.
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

// recordModification records commands for the options and indexes that have
// changed.
func (t *change) recordModification(was, is *Collection) {
	before := t.e.ops.count
	options := func() *bson.Builder {
		b := new(bson.Builder).OpenDoc("collectionOptions").Binary("uuid", uuidSubtype, was.UUID[:])
		return b.Fields(was.Options).Close()
	}
	if changes := changed(was.Options, is.Options); len(changes) > len(bson.Empty) {
		t.commandOver(is, "collMod", options().Finish(), func(b *bson.Builder) { b.Fields(changes) })
	}
	for i, ix := range is.indexes {
		spec := changed(was.indexes[i].Spec, ix.Spec)
		if len(spec) <= len(bson.Empty) {
			continue
		}
		old := options().OpenDoc("indexOptions")
		for name := range spec.All() {
			old.Value(name, was.indexes[i].Spec.Lookup(name))
		}
		t.commandOver(is, "collMod", old.Close().Finish(), func(b *bson.Builder) { b.OpenDoc("index").String("name", ix.Name).Fields(spec).Close() })
	}
	if t.e.ops.count == before { // a command that changes nothing is told, too
		t.commandOver(is, "collMod", options().Finish(), nil)
	}
}

// changed returns the fields of a document that another one does not have, or has
// with other values; removed fields are null.
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
