// Package nosql is the query language of Azure Cosmos DB's NoSQL API, over
// documents as bytes. (Cosmos DB: "Queries in Azure Cosmos DB for NoSQL".)
//
// Text becomes tokens (token.go), a tree whose names are resolved (parse*.go, ast.go),
// and a Query that runs over a stream of items (run.go).
// A scalar expression has a value or is undefined, which here is
// bson.Missing: a missing property, a comparison of two types, a function of
// the wrong type. Undefined never passes a filter, and is left out of what
// it would be part of.
//
// Numbers are doubles, except for stored whole numbers, which a projection returns
// exactly.
//
// # Invariants
//
//   - bounded: the text, its nesting, the rows of a join, what is grouped or sorted in
//     memory, and the values that are made for a row have bounds (limits.go, meter.go).
//   - superset: Filter (filter.go) passes every item that the query selects from, so that
//     an index may be used first.
//
// Start reading at query.go, then run.go.
package nosql
