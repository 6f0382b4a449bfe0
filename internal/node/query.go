package node

import (
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/project"
	"github.com/mayflydb/mayfly/internal/schema"
)

// query is a statement's query with the context in which it is parsed.
type query struct {
	*exec.Query
	coll     *catalog.Collection // nil if there is none
	settings *querySetting       // of a pipeline; nil for none
	scope
}

// scope is the context of a statement's expressions and strings: its variables,
// its time, its collation.
type scope struct {
	env      *expr.Env
	expr     *expr.Options
	match    *match.Options
	collator bson.Collator
	// collation is normalised; nil for the simple one.
	collation bson.Doc
}

// collection resolves the collection of a command, nil if there is none.
// Views are refused with 166.
func (n *Node) collection(op *command.Op) (*catalog.Collection, error) {
	if op.HasUUID {
		c := n.Catalog.LookupUUID(op.UUID)
		if c == nil || c.Namespace.DB != op.DB {
			return nil, mongoerr.New(mongoerr.NamespaceNotFound, "Unable to resolve %s", catalog.UUID(op.UUID))
		}
		op.SetCollection(c.Namespace.Coll)
		return c, nil
	}
	c := n.lookup(op, namespace(op))
	if c != nil && c.IsView() {
		return nil, mongoerr.New(mongoerr.CommandNotSupportedOnView, "Namespace %s is a view, not a collection", op.NS)
	}
	return c, nil
}

// lookup finds a collection or view as an operation sees it, or returns nil.
func (n *Node) lookup(op *command.Op, ns schema.Namespace) *catalog.Collection {
	if op.Transaction != nil {
		if c := op.Transaction.Lookup(ns); c != nil {
			return c
		}
	}
	return n.Catalog.Lookup(ns)
}

// newScope is scopeIn with new memory.
func (n *Node) newScope(op *command.Op, c *catalog.Collection, let, collation bson.Doc) (scope, error) {
	return n.scopeIn(new(statementMemory), op, c, let, collation)
}

// scopeIn reads `let` and `collation` of a command; the collection's collation
// applies where the command gives none.
func (n *Node) scopeIn(m *statementMemory, op *command.Op, c *catalog.Collection, let, collation bson.Doc) (scope, error) {
	now := op.Start
	if now.IsZero() { // an operation within another one
		now = time.Now()
	}
	if m.env.Now = op.Generic.LocalNow; m.env.Now == 0 {
		m.env.Now = n.Catalog.Clock.At(now).UnixMilli()
	}
	m.ending = op.Ending()
	s := scope{env: &m.env, expr: &m.expr, match: &m.match}
	if collation.IsEmpty() && c != nil {
		collation = c.Options.Lookup("collation").Data
	}
	if !collation.IsEmpty() {
		parsed, err := schema.ParseCollation(collation)
		if err != nil {
			return s, err
		}
		if parsed != nil {
			s.collation, s.collator = parsed.Spec, parsed.Collator
		}
	}
	s.env.ClusterTime, s.expr.ClusterTime = op.ClusterTime(), n.Dispatcher.Member != nil
	s.env.Collator = s.collator
	s.expr.Collator = s.collator
	s.expr.Op = &m.ending
	s.expr.JavaScript = n.javascriptIn(m, op.DB)
	if let != nil {
		names, values, err := expr.CommandLet(let, s.collator)
		if err != nil {
			return s, err
		}
		s.expr.Vars, s.expr.Values = names, values
		for i, v := range values {
			s.env.SetVar(i, v)
		}
	}
	*s.match = match.Options{Collator: s.collator, Expr: s.expr}
	return s, nil
}

// newQuery is queryIn with new memory.
func (n *Node) newQuery(op *command.Op, let, collation, filter bson.Doc) (*query, error) {
	return n.queryIn(new(statementMemory), op, let, collation, filter)
}

// queryIn resolves the command's collection and parses a filter for it.
func (n *Node) queryIn(m *statementMemory, op *command.Op, let, collation, filter bson.Doc) (*query, error) {
	c, err := n.collection(op)
	if err == nil && c == nil {
		c, err = n.sealedBuckets(namespace(op))
	}
	if err != nil {
		return nil, err
	}
	s, err := n.scopeIn(m, op, c, let, collation)
	if err != nil {
		return nil, err
	}
	return n.scopedQueryIn(m, op, c, s, filter)
}

// scopedQuery is scopedQueryIn with new memory.
func (n *Node) scopedQuery(op *command.Op, c *catalog.Collection, s scope, filter bson.Doc) (*query, error) {
	return n.scopedQueryIn(new(statementMemory), op, c, s, filter)
}

// scopedQueryIn parses a filter in a scope.
func (n *Node) scopedQueryIn(m *statementMemory, op *command.Op, c *catalog.Collection, s scope, filter bson.Doc) (*query, error) {
	q := &m.query
	m.plan.Env = s.env
	*q = query{Query: &m.plan, coll: c, scope: s}
	q.Collation, q.Collator = s.collation, s.collator
	q.NoScan = n.knobs.noTableScan.Load()
	if filter == nil {
		filter = bson.Empty
	}
	err := op.HoldParsed(len(filter))
	if err == nil {
		q.At = stateOf(op)
		q.coll, err = n.lookupAt(q.At, namespace(op), c)
	}
	if err != nil {
		return q, err
	}
	// A write looks for documents in a unit, which has a guard; that of measurements looks for them before.
	if c != nil && (c.IsTimeseries() || op.Command != nil && op.Command.Flags&command.Writes == 0) {
		q.Held = n.heldOf(op, c, namespace(op))
	}
	if q.Filter, err = match.Parse(filter, s.match); err == nil && n.used != nil {
		n.used.filter(filter)
	}
	return q, err
}

// stateOf returns the state of the store that an operation reads; nil for the newest
// one.
func stateOf(op *command.Op) *exec.StoreState {
	if op.Transaction != nil {
		return &exec.StoreState{Snapshot: op.Transaction.State(), ExpiryTime: op.ExpiryTime, Serial: true, Knows: op.Transaction.Knows}
	}
	if op.State == nil {
		return nil
	}
	return &exec.StoreState{Snapshot: op.State.Snapshot, ExpiryTime: int64(op.State.Time.Seconds()) * 1000}
}

// lookupAt calls catalog.LookupAt for a state; now is what the catalog has, or nil.
func (n *Node) lookupAt(s *exec.StoreState, ns schema.Namespace, c *catalog.Collection) (*catalog.Collection, error) {
	if s == nil || c != nil && s.Knows != nil && s.Knows(c) {
		return c, nil
	}
	return n.Catalog.LookupAt(ns, c, s.Snapshot)
}

// project parses the projection of a find, and tells the planner which fields
// it reads.
func (q *query) project(spec bson.Doc) error {
	if spec == nil || spec.IsEmpty() {
		return nil
	}
	p, err := project.ParseFind(spec, &project.Options{Expr: q.expr, Match: q.match, Filter: q.Filter})
	if err != nil {
		return err
	}
	q.Projection = p
	if paths, whole := p.Fields(); !whole {
		q.Paths = paths
	}
	return nil
}

// observe notes how a cursor reads on the operation that opens it.
func observe(op *command.Op, c *exec.Cursor) {
	if strings.HasPrefix(c.Summary(), "COLLSCAN") {
		tailable := op.Command != nil && op.Command.Name == "find" && op.Args.Bool("tailable")
		op.Dispatcher.CountScan(op.NS, tailable)
	}
	op.SetPlanSummary(c.Summary())
	op.Stats.IsQuery = true
	s := &op.Stats
	s.FromMultiPlanner = c.FromTrial()
	s.QueryHash, s.PlanCacheKey, s.FromPlanCache, s.Replanned = c.Choice()
	s.ExecStats = c
}
