// Package plan chooses how a query reaches its documents. It sees a query
// (Query) and descriptors of a collection and its indexes (Collection), never
// storage, and answers with candidate plans: trees of Node that package exec
// runs, tries against each other and explains.
//
// Start reading at candidates.go; bounder.go says which predicates an index can
// use together, bounds.go which values of an indexed field a predicate lets
// through, wildcard.go what a wildcard index is to a query, finish.go what
// stands above a scan, and shape.go what queries have in common.
package plan
