package node

import (
	"sync"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/javascript"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/update"
)

// statementMemory is the memory of a statement, in one allocation: of its scope, and
// of its query.
type statementMemory struct {
	env    expr.Env
	expr   expr.Options
	match  match.Options
	ending command.Ending

	session javascript.Session
	library library

	query query
	plan  exec.Query
}

// finding is the memory of a find. It is reused where the cursor does not outlive
// the operation.
type finding struct {
	statementMemory
	run exec.QueryMemory
}

var findings = sync.Pool{New: func() any { return new(finding) }}

// Release gives the memory back.
func (m *finding) Release() {
	*m = finding{}
	findings.Put(m)
}

// writeMemory is the memory of a statement that writes.
type writeMemory struct {
	statementMemory
	modification update.Options
	update       exec.Update
	delete       exec.Delete
}

// writing is the memory of a command that writes: of its statements, one after the
// other, and of their writer. It is reused from operation to operation.
type writing struct {
	statement writeMemory
	writer    exec.Writer
}

var writings = sync.Pool{New: func() any { return new(writing) }}

// newWriting returns memory for op, which has no cursor, and a writer that has
// begun.
func (n *Node) newWriting(op *command.Op) (*writing, *exec.Writer) {
	m := writings.Get().(*writing)
	op.Memory = m
	n.beginWriter(&m.writer, op)
	return m, &m.writer
}

// next returns the memory for the next statement; of the one before only the outcome
// may still be used.
func (m *writing) next() *writeMemory {
	m.statement = writeMemory{}
	return &m.statement
}

// Release gives the memory back.
func (m *writing) Release() {
	m.statement = writeMemory{}
	m.writer.Release()
	writings.Put(m)
}
