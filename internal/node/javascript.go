package node

import (
	"context"
	"log/slog"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/javascript"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

const (
	// maxStored is how many bytes of stored functions an operation loads.
	maxStored = 16 << 20
	// storedFunctions is the collection of a database's stored functions.
	storedFunctions = "system.js"
)

// NewJavaScript makes the engine of a node. limit is how many bytes the process
// may use; b, which may be nil, is the budget of all operations.
func NewJavaScript(log *slog.Logger, limit int64, b *memory.Budget) *javascript.Engine {
	return javascript.NewEngine(javascript.Options{Log: log, Memory: limit, Budget: b})
}

// JavaScriptEngine is the name of the engine in buildInfo.
const JavaScriptEngine = "goja"

// javascriptEngine names the engine in buildInfo; "" for none.
func (n *Node) javascriptEngine() string {
	if n.JavaScript == nil {
		return ""
	}
	return JavaScriptEngine
}

// javascriptIn returns what all JavaScript of one operation on a database
// shares; nil if JavaScript is off.
func (n *Node) javascriptIn(m *statementMemory, db string) *javascript.Session {
	if n.JavaScript == nil {
		return nil
	}
	m.library = library{n, db}
	m.session = javascript.Session{Engine: n.JavaScript, Library: &m.library}
	return &m.session
}

// library is the stored functions of a database.
type library struct {
	n  *Node
	db string
}

// Stored reads them.
func (l *library) Stored(ctx context.Context) ([]bson.Doc, error) {
	return l.n.storedFunctions(ctx, l.db)
}

// storedFunctions reads the system.js of a database.
func (n *Node) storedFunctions(ctx context.Context, db string) ([]bson.Doc, error) {
	c := n.Catalog.Lookup(schema.Namespace{DB: db, Coll: storedFunctions})
	if c == nil {
		return nil, nil
	}
	q := &exec.Query{}
	var err error
	if q.Filter, err = match.Parse(bson.Empty, nil); err != nil {
		return nil, err
	}
	cur, err := n.Exec.Find(ctx, c, q)
	if err != nil {
		return nil, err
	}
	defer cur.Close()
	var docs []bson.Doc
	bytes := 0
	for {
		d, err := cur.Next(ctx)
		if err != nil || d == nil {
			return docs, err
		}
		if bytes += len(d); bytes > maxStored {
			return nil, mongoerr.New(mongoerr.ExceededMemoryLimit, "the stored functions of %s take more than %d bytes", db, maxStored)
		}
		docs = append(docs, d.Clone())
	}
}
