// Package router is a cluster's router: it stores no data, and looks to clients like a
// server that has all of it. The router targets a statement by the route of its
// collection (routes.go, package shard), sends it to the targeted shards with the
// versions of that route (ask.go), and merges their replies. If a shard reports the
// route as stale, the router reads it again, and retries what had no effect (retry.go).
//
// Commands that change the cluster are forwarded to the config primary under the names
// that mongos uses (configsvr.go). Each command has a file, as in package node.
//
// Transactions of clients: transaction.go and committransaction.go. A change stream is merged of
// those of all shards: changestream.go. Updates and deletes of one document that do not give
// the shard key: withoutkey.go; those that move a document to another shard: owntransaction.go.
// What all shards do alike: everywhere.go. What is sampled of queries: samples.go.
//
// Start reading at router.go, then routes.go, ask.go and find.go.
package router
