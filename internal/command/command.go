package command

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Handler runs one command: it writes the reply's fields into op.Reply and returns nil,
// or returns an error, which becomes the whole reply. The dispatcher adds "ok" at the
// end. ctx ends when the operation is killed, exceeds its time limit, or its client
// disconnects; context.Cause(ctx) is then the error for the client.
type Handler func(ctx context.Context, op *Op) error

// Flags say what a command is and what the dispatcher checks for it.
type Flags uint32

const (
	// AdminOnly commands answer only on the database admin (code 13 elsewhere).
	AdminOnly Flags = 1 << iota
	// Writes commands change user data.
	Writes
	// TakesWriteConcern commands take a writeConcern (code 72 if one is given to others).
	TakesWriteConcern
	// TakesReadConcern commands take every readConcern level; others only "local".
	TakesReadConcern
	// Retryable commands take a txnNumber outside of a transaction.
	Retryable
	// Transaction commands may run inside a multi-document transaction.
	Transaction
	// NoAuth commands answer before the client has authenticated.
	NoAuth
	// APIv1 commands are part of Stable API version 1.
	APIv1
	// Quiet commands leave no slow-operation line and no profile entry.
	Quiet
	// Unprofiled commands have no entry in the profile.
	Unprofiled
	// Redacted commands carry secrets: logs, profile and currentOp hide their body.
	Redacted
	// Uncounted commands are not counted in opcounters.command.
	Uncounted
	// TakesSnapshot commands take the readConcern level snapshot outside of a
	// transaction, too.
	TakesSnapshot
	// ChecksOwner commands read or write documents that a shard must own; see
	// Dispatcher.Admit.
	ChecksOwner
	// ChecksDatabase commands define or list what a shard has of a database, whose
	// version routers send; see Dispatcher.Admit.
	ChecksDatabase
	// ChecksBlock commands that write check Op.MayWrite themselves, per statement, or
	// write nothing that a block of user writes is about; for others the dispatcher does.
	ChecksBlock
)

// OpKind says how an operation is counted in opcounters and how currentOp and
// the profiler name it.
type OpKind uint8

// The kinds of operations. Inserts, updates and deletes are counted by document
// and statement, so their handlers count them (see Metrics).
const (
	KindCommand OpKind = iota
	KindQuery
	KindGetMore
	KindInsert
	KindUpdate
	KindRemove
	KindNone
)

var kindNames = [...]string{"command", "query", "getmore", "insert", "update", "remove", "none"}

// String is the kind as the "op" of currentOp and system.profile.
func (k OpKind) String() string { return kindNames[k] }

// Command declares one command.
type Command struct {
	// Name is its name in replies and metrics.
	Name string
	// Aliases are further names that clients may use ("isMaster", "ismaster").
	Aliases []string
	// Flags say what the dispatcher checks.
	Flags Flags
	// Place says on which members of a replica set it runs.
	Place Place
	// Kind says how it is counted; the zero value is KindCommand.
	Kind OpKind
	// Fields declares the arguments. The dispatcher parses them into Op.Args
	// before it calls Run. Nil: every field is accepted and Run reads Op.Body.
	Fields *Fields
	// CheckReadConcern, if not nil, rejects a read concern that the command takes in
	// general, but not with these arguments; its error says why.
	CheckReadConcern func(op *Op, level string) error
	// Help is what {help: true} prints.
	Help string
	// Run handles it.
	Run Handler
	// Extra writes what metrics.commands shows of it in addition to its counts; nil for
	// nothing.
	Extra func(b *bson.Builder)

	counts commandCounts
}
