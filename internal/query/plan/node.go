package plan

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/query/project"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

// Node is one stage of a plan. Plans are immutable trees that several
// executions may share.
type Node interface {
	// Stage is the name that explain prints.
	Stage() string
	// Inputs are the stages that feed this one.
	Inputs() []Node
}

// CollScan reads a collection in record order.
type CollScan struct {
	Filter   match.Node // nil: every document
	Backward bool
	Tailable bool
	// Range bounds the scan of a clustered collection, or is nil.
	Range *IndexScan
}

// IDHack reads the one document with a given _id.
type IDHack struct{ ID bson.Value }

// Express finds one document the short way, by _id or by an index, and shapes
// it.
type Express struct {
	ID         bson.Value // if Scan is nil
	Scan       *Fetch     // of one point of Index
	Index      *Index
	Clustered  bool                // the collection is clustered by its options
	Projection *project.Projection // a simple one, or nil
	Write      string              // "", "EXPRESS_UPDATE" or "EXPRESS_DELETE": what happens to the document
}

// IndexScan reads the entries of an index that lie within bounds.
type IndexScan struct {
	Index    *Index
	Bounds   []Intervals // one list per field, ascending whatever the field's direction
	Backward bool        // against the order of the index
	Filter   match.Node  // a filter on the key's own values, or nil
	Min, Max []bson.Value
	Dedup    bool     // a document may own several entries within the bounds
	Keys     bool     // a node above reads the key's values
	Paths    []string // which of them, if Keys
	Variant  int      // distinguishes plans that bound the same index by other predicates
}

// Fetch reads the document of each entry.
type Fetch struct {
	Input  Node
	Filter match.Node // nil: every document
}

// Or joins the documents of its inputs, each document once.
type Or struct {
	Nodes   []Node
	fetched bool // every input reads the documents
}

// SortMerge merges inputs that have the order of Pattern.
type SortMerge struct {
	Nodes   []Node
	Pattern sortkey.Pattern
	Dedup   bool // inputs may have documents in common
	fetched bool // every input reads the documents
}

// Subplan marks the plan of an $or whose branches were planned one by one.
type Subplan struct{ Input Node }

// Sort orders its input in memory.
type Sort struct {
	Input   Node
	Pattern sortkey.Pattern
	Limit   int64 // keep only the first Limit; 0: all
	// Entries says that it orders entries of an index by what is in their keys, and
	// that a Fetch above reads the documents of those that it keeps.
	Entries bool
}

// Skip leaves out the first N.
type Skip struct {
	Input Node
	N     int64
}

// Limit ends after N.
type Limit struct {
	Input Node
	N     int64
}

// ProjectionKind says how a projection is computed.
type ProjectionKind uint8

// The kinds of projection, from the cheapest.
const (
	ProjectionCovered ProjectionKind = iota // from the key of the index
	ProjectionSimple                        // top-level inclusion or exclusion
	ProjectionDefault                       // everything else
)

// Projection shapes each document.
type Projection struct {
	Input Node
	Kind  ProjectionKind
	Spec  *project.Projection
}

// ReturnKey answers with the keys of the index instead of documents.
type ReturnKey struct{ Input Node }

// Count counts its input.
type Count struct {
	Input Node // nil: the collection's own count
	Skip  int64
	Limit int64
}

// CountScan counts entries of an index within bounds without reading
// documents.
type CountScan struct {
	Index  *Index
	Bounds []Intervals
	Dedup  bool
}

// DistinctScan reads one entry for each value of the first Field+1 fields of
// an index.
type DistinctScan struct {
	Index    *Index
	Bounds   []Intervals
	Field    int
	Backward bool
	Groups   bool     // a missing field, null in the keys, counts as a value
	Elements bool     // the field's keys are of the elements of arrays, too
	Paths    []string // the fields that are read of documents, if there is no Fetch above
}

// EOF has no documents.
type EOF struct {
	// NoCollection says that there is no collection; else the filter lets
	// nothing pass.
	NoCollection bool
}

// Stage tells whether the scan is of a clustered collection's range.
func (n *CollScan) Stage() string {
	if n.Range != nil {
		return "CLUSTERED_IXSCAN"
	}
	return "COLLSCAN"
}

// Stage tells what is read and what happens to it.
func (n *Express) Stage() string {
	switch {
	case n.Write != "":
		return n.Write
	case n.Clustered:
		return "EXPRESS_CLUSTERED_IXSCAN"
	}
	return "EXPRESS_IXSCAN"
}

func (*SortMerge) Stage() string    { return "SORT_MERGE" }
func (*Subplan) Stage() string      { return "SUBPLAN" }
func (*IDHack) Stage() string       { return "IDHACK" }
func (*IndexScan) Stage() string    { return "IXSCAN" }
func (*Fetch) Stage() string        { return "FETCH" }
func (*Or) Stage() string           { return "OR" }
func (*Sort) Stage() string         { return "SORT" }
func (*Skip) Stage() string         { return "SKIP" }
func (*Limit) Stage() string        { return "LIMIT" }
func (*ReturnKey) Stage() string    { return "RETURN_KEY" }
func (*CountScan) Stage() string    { return "COUNT_SCAN" }
func (*DistinctScan) Stage() string { return "DISTINCT_SCAN" }
func (*EOF) Stage() string          { return "EOF" }

// Stage is RECORD_STORE_FAST_COUNT where the collection's own count answers.
func (c *Count) Stage() string {
	if c.Input == nil {
		return "RECORD_STORE_FAST_COUNT"
	}
	return "COUNT"
}

// Stage tells the kind.
func (p *Projection) Stage() string {
	return [...]string{"PROJECTION_COVERED", "PROJECTION_SIMPLE", "PROJECTION_DEFAULT"}[p.Kind]
}

func (*CollScan) Inputs() []Node     { return nil }
func (*IDHack) Inputs() []Node       { return nil }
func (*IndexScan) Inputs() []Node    { return nil }
func (n *Fetch) Inputs() []Node      { return []Node{n.Input} }
func (n *Or) Inputs() []Node         { return n.Nodes }
func (n *SortMerge) Inputs() []Node  { return n.Nodes }
func (n *Subplan) Inputs() []Node    { return []Node{n.Input} }
func (*Express) Inputs() []Node      { return nil }
func (n *Sort) Inputs() []Node       { return []Node{n.Input} }
func (n *Skip) Inputs() []Node       { return []Node{n.Input} }
func (n *Limit) Inputs() []Node      { return []Node{n.Input} }
func (n *Projection) Inputs() []Node { return []Node{n.Input} }
func (n *ReturnKey) Inputs() []Node  { return []Node{n.Input} }
func (*CountScan) Inputs() []Node    { return nil }
func (*DistinctScan) Inputs() []Node { return nil }
func (*EOF) Inputs() []Node          { return nil }

// Inputs is empty if the collection's own count answers.
func (c *Count) Inputs() []Node {
	if c.Input == nil {
		return nil
	}
	return []Node{c.Input}
}

// Write is the statement on top of the plan that finds its documents, as
// explain shows it.
type Write struct {
	Input Node // whose documents are written
	// Kind is "UPDATE", "DELETE" or "BATCHED_DELETE".
	Kind string
}

// Stage is the kind of the write.
func (n *Write) Stage() string { return n.Kind }

// Inputs is the plan that finds the documents.
func (n *Write) Inputs() []Node { return []Node{n.Input} }
