package wire

import (
	"bytes"
	"encoding/binary"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// ReplyFlags of an OP_REPLY.
type ReplyFlags uint32

const (
	// QueryFailure: the document is an error, {$err, code}.
	QueryFailure ReplyFlags = 1 << 1
	// AwaitCapable: always set, as old drivers expect.
	AwaitCapable ReplyFlags = 1 << 3
)

// commandSuffix marks the collection name of an OP_QUERY that is a command.
const commandSuffix = ".$cmd"

// greetings are the commands that may still come as OP_QUERY: what a driver
// sends before it knows whom it talks to.
var greetings = map[string]bool{
	"hello": true, "isMaster": true, "ismaster": true,
	"_isSelf": true, "authenticate": true, "buildinfo": true, "buildInfo": true, "saslContinue": true, "saslStart": true,
}

const mayNeedUpgrade = ". The client driver may require an upgrade. For more details see https://dochub.mongodb.org/core/legacy-opcode-removal"

// The retired opcodes that never had an answer, with the code of the error
// that refuses each.
var retired = map[OpCode]struct {
	code mongoerr.Code
	name string
}{
	OpUpdate:      {5745701, "OP_UPDATE"},
	OpInsert:      {5745702, "OP_INSERT"},
	OpKillCursors: {5745703, "OP_KILL_CURSORS"},
	OpDelete:      {5745704, "OP_DELETE"},
}

// codeLegacyQuery is the code for a query or getMore in the legacy form.
const codeLegacyQuery mongoerr.Code = 5739101

func (m *Message) refuseOpCode() error {
	if m.OpCode == OpGetMore {
		return answering(mongoerr.New(codeLegacyQuery, "OP_GET_MORE is no longer supported"+mayNeedUpgrade))
	}
	if r, ok := retired[m.OpCode]; ok {
		return &Error{mongoerr.New(r.code, "%s is no longer supported", r.name), Ignore}
	}
	return unknownOpCode(m.OpCode)
}

// parseQuery reads an OP_QUERY: flags, collection, skip, limit, query, and a
// projection, which is not needed.
func (m *Message) parseQuery(b []byte) error {
	if len(b) < 4 {
		return closing(mongoerr.ProtocolError, "OP_QUERY of %d bytes has no flags", HeaderLen+len(b))
	}
	b = b[4:]
	end := bytes.IndexByte(b, 0)
	if end < 0 || len(b) < end+1+8 {
		return closing(mongoerr.ProtocolError, "OP_QUERY without a complete collection name, skip and limit")
	}
	m.Collection = string(b[:end])
	d, rest, err := parseDoc(b[end+1+8:], bson.MaxMessageDepth)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		if _, rest, err = parseDoc(rest, bson.MaxMessageDepth); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return closing(mongoerr.ProtocolError, "%d bytes after the documents of an OP_QUERY", len(rest))
	}
	if m.Database() == "" {
		return answering(mongoerr.New(codeLegacyQuery, "OP_QUERY is no longer supported"+mayNeedUpgrade))
	}
	m.Body = unwrapQuery(d)
	if name, _ := m.Body.First(); !greetings[name] {
		return answering(mongoerr.New(mongoerr.UnsupportedOpQueryCommand, "Unsupported OP_QUERY command: %s"+mayNeedUpgrade, name))
	}
	return nil
}

// unwrapQuery finds the command in {$query: {…}, $readPreference: {…}}.
func unwrapQuery(d bson.Doc) bson.Doc {
	name, v := d.First()
	if (name == "$query" || name == "query") && v.Type == bson.TypeDocument {
		return v.Doc()
	}
	return d
}

// Database is the database of an OP_QUERY that is a command, or empty.
func (m *Message) Database() string {
	db, ok := strings.CutSuffix(m.Collection, commandSuffix)
	if !ok {
		return ""
	}
	return db
}

func (m *Message) appendQuery(dst []byte) []byte {
	const flags, skip, limit = 0, 0, 0xffffffff // one document, then close
	dst = binary.LittleEndian.AppendUint32(dst, flags)
	dst = append(append(dst, m.Collection...), 0)
	dst = binary.LittleEndian.AppendUint32(dst, skip)
	dst = binary.LittleEndian.AppendUint32(dst, limit)
	return append(dst, m.Body...)
}

// replyHead is the length in bytes of flags, cursor, start and count of an
// OP_REPLY.
const replyHead = 4 + 8 + 4 + 4

func (m *Message) parseReply(b []byte) error {
	if len(b) < replyHead {
		return closing(mongoerr.ProtocolError, "OP_REPLY of %d bytes is incomplete", HeaderLen+len(b))
	}
	m.ReplyFlags = ReplyFlags(binary.LittleEndian.Uint32(b))
	d, rest, err := parseDoc(b[replyHead:], bson.MaxMessageDepth)
	if err == nil && len(rest) > 0 {
		return closing(mongoerr.ProtocolError, "%d bytes after the document of an OP_REPLY", len(rest))
	}
	m.Body = d
	return err
}

func (m *Message) appendReply(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(m.ReplyFlags))
	dst = binary.LittleEndian.AppendUint64(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint32(dst, 1)
	return append(dst, m.Body...)
}

func unknownOpCode(op OpCode) error {
	return closing(mongoerr.ProtocolError, "unknown opcode %d", op)
}
