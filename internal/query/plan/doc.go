// Package plan chooses how a query reaches its documents. It sees a query
// (Query) and descriptors of a collection and its indexes (Collection), never
// storage, and answers with candidate plans: trees of Node that package exec
// runs, tries against each other and explains.
//
// Start reading at candidates.go; bounds.go says which values of an indexed
// field a predicate lets through, index.go which predicates an index can use
// together.
package plan
