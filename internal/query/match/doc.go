// Package match is the filter language: it parses a filter document into a
// tree of nodes and decides, on the bytes of a document, whether it matches.
//
// Parse makes a Filter. A Filter holds two trees: the one as written, from
// which ExplainFailure says why a document fails validation, and the
// normalised one (Root), which Match runs, the planner reads and Serialize
// prints. Nodes are immutable after Parse; a Filter may be used by many
// goroutines at once.
//
// Start reading at node.go (the tree), then parse.go and path.go (how a dotted
// path meets arrays).
package match
