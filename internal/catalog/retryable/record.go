package retryable

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Session identifies a logical session: the id that its client chose, and the digest
// of its user.
type Session struct {
	ID  [16]byte
	UID [32]byte
}

// Document returns the session as MongoDB shows it, an lsid.
func (s Session) Document() bson.Doc {
	return new(bson.Builder).Binary("id", 4, s.ID[:]).Binary("uid", 0, s.UID[:]).Finish()
}

// keyLen is the length of a record's key: the session and the record's number.
const keyLen = SessionLen + 4

// AppendKey appends the key of a session's record: ID, UID and the number, big-endian.
// The records of one transaction number are numbered from 0.
func AppendKey(dst []byte, s Session, number uint32) []byte {
	dst = append(append(dst, s.ID[:]...), s.UID[:]...)
	return binary.BigEndian.AppendUint32(dst, number)
}

// SessionLen is the length of the prefix that the keys of a session's records
// share.
const SessionLen = 16 + 32

// AppendSession appends the prefix that the keys of a session's records share.
func AppendSession(dst []byte, s Session) []byte {
	return append(append(dst, s.ID[:]...), s.UID[:]...)
}

// ParseKey reads a key. Errors: storage.ErrCorruption.
func ParseKey(key []byte) (s Session, number uint32, err error) {
	if len(key) != keyLen {
		return s, 0, fmt.Errorf("%w: not the key of a session's record: %x", storage.ErrCorruption, key)
	}
	copy(s.ID[:], key)
	copy(s.UID[:], key[len(s.ID):])
	return s, binary.BigEndian.Uint32(key[keyLen-4:]), nil
}

// Kind is what statements did, each to one document.
type Kind uint8

// The kinds, and what Run.Doc is for each.
const (
	Inserted Kind = iota + 1 // n: 1
	Updated                  // n: 1, nModified: 1
	Deleted                  // n: 1
	Upserted                 // n: 1; {_id} of the new document
	Modified                 // of a findAndModify: {lastErrorObject, value}
	// Committed is of a transaction, of which it is the only run; its Doc is empty. So are
	// Prepared and Aborted: the first is replaced when the transaction is decided, the second
	// says that the number is never to be prepared again.
	Committed
	Prepared
	Aborted
	kinds
)

// OfTransaction says that the kind is of a transaction, whose only run it is.
func (k Kind) OfTransaction() bool { return k >= Committed && k < kinds }

// one says that a run of the kind is one statement, and has a document.
func (k Kind) one() bool { return k >= Upserted }

// Run is a run of statements with consecutive numbers that did the same.
type Run struct {
	Kind  Kind
	First int32
	Count int32
	Doc   bson.Doc
}

// Has reports whether a statement is in the run.
func (r *Run) Has(statement int32) bool {
	return statement >= r.First && int64(statement) < int64(r.First)+int64(r.Count)
}

// AppendRun adds what a statement did to runs.
func AppendRun(runs []Run, kind Kind, statement int32, doc bson.Doc) []Run {
	if n := len(runs); n > 0 && !kind.one() {
		if last := &runs[n-1]; last.Kind == kind && int64(last.First)+int64(last.Count) == int64(statement) {
			last.Count++
			return runs
		}
	}
	return append(runs, Run{kind, statement, 1, doc})
}

// recordVersion is the first byte of a record, transactionVersion that of a committed
// transaction's, and preparedVersion that of one that is prepared or aborted. Older builds do
// not know the later ones.
const (
	recordVersion      = 1
	transactionVersion = 2
	preparedVersion    = 3
)

// versions are those of records with a kind of transactions.
var versions = map[Kind]byte{Committed: transactionVersion, Prepared: preparedVersion, Aborted: preparedVersion}

// Record is what one unit did for a session.
type Record struct {
	Term uint64 // position of the unit in the log of the replicated group; zero if there is none
	Time uint64
	Txn  int64 // the transaction number, not below 0
	Date int64 // the time by the proposer's clock: milliseconds since 1970
	Runs []Run
}

// Transaction returns the kind of a record of a transaction; 0 for other records.
func (r *Record) Transaction() Kind {
	if len(r.Runs) == 1 && r.Runs[0].Kind.OfTransaction() {
		return r.Runs[0].Kind
	}
	return 0
}

// version is the version of a body.
func version(body []byte) byte {
	in := storage.EncodingReader{Rest: body}
	in.Uvarint()
	in.Uvarint()
	if !in.Bad && len(in.Rest) > 0 {
		if v, ok := versions[Kind(in.Rest[0])]; ok {
			return v
		}
	}
	return recordVersion
}

// AppendBody appends the encoding of all but the position in the log, which is not
// known before the unit is applied:
//
//	transaction number ‖ date ‖ for each run: kind, one byte ‖ first statement ‖
//	count or, where the kind has a document, its length and the document
//
// Numbers are varints.
func (r *Record) AppendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(r.Txn)), uint64(r.Date))
	for i := range r.Runs {
		run := &r.Runs[i]
		dst = binary.AppendUvarint(append(dst, byte(run.Kind)), uint64(run.First))
		if run.Kind.one() {
			dst = storage.AppendSized(dst, run.Doc)
		} else {
			dst = binary.AppendUvarint(dst, uint64(run.Count))
		}
	}
	return dst
}

// AppendValue appends a stored record: version, one byte ‖ Term ‖ Time, eight bytes
// each, big-endian ‖ the body.
func AppendValue(dst []byte, term, time uint64, body []byte) []byte {
	dst = append(dst, version(body))
	dst = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, term), time)
	return append(dst, body...)
}

// Parse reads a stored record, whose documents share value's bytes. Errors:
// storage.ErrCorruption.
func Parse(value []byte) (r Record, err error) {
	in := storage.EncodingReader{Rest: value}
	head := in.Bytes(1 + 8 + 8)
	if in.Bad || head[0] < recordVersion || head[0] > preparedVersion {
		return r, fmt.Errorf("%w: a session's record is truncated, or has a version that this build cannot read: %x", storage.ErrCorruption, value[:min(len(value), 1)])
	}
	r.Term, r.Time = binary.BigEndian.Uint64(head[1:]), binary.BigEndian.Uint64(head[9:])
	if err := r.parseBody(&in); err != nil {
		return r, err
	}
	want, ok := versions[r.Transaction()]
	if !ok {
		want = recordVersion
	}
	if head[0] != want {
		return r, fmt.Errorf("%w: a session's record has the version of another kind: %x", storage.ErrCorruption, head[0])
	}
	return r, nil
}

// ValidBody reports whether bytes are the body of a record.
func ValidBody(body []byte) bool {
	return new(Record).parseBody(&storage.EncodingReader{Rest: body}) == nil
}

// maxDocumentDepth bounds the nesting of a run's document, which has a user's in it.
const maxDocumentDepth = 300

func (r *Record) parseBody(in *storage.EncodingReader) error {
	txn, date := in.Uvarint(), in.Uvarint()
	r.Txn, r.Date = int64(txn), int64(date)
	in.Bad = in.Bad || txn > math.MaxInt64 || date > math.MaxInt64 || len(in.Rest) == 0
	for !in.Bad && len(in.Rest) > 0 {
		run := Run{Kind: Kind(in.Bytes(1)[0]), Count: 1}
		first, count := in.Uvarint(), uint64(1)
		switch {
		case run.Kind == 0 || run.Kind >= kinds:
			in.Bad = true
		case run.Kind.one():
			run.Doc = in.Sized()
			in.Bad = in.Bad || bson.Validate(run.Doc, maxDocumentDepth) != nil
		default:
			count = in.Uvarint()
		}
		in.Bad = in.Bad || first > math.MaxInt32 || count == 0 || count > math.MaxInt32
		run.First, run.Count = int32(first), int32(count)
		r.Runs = append(r.Runs, run)
	}
	for i := range r.Runs {
		in.Bad = in.Bad || r.Runs[i].Kind.OfTransaction() && len(r.Runs) > 1
	}
	if in.Bad {
		return fmt.Errorf("%w: a session's record is damaged", storage.ErrCorruption)
	}
	return nil
}
