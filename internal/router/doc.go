// Package router is a cluster's router: it holds no data, and answers clients as if it
// had all of it. A statement is targeted by the route of its collection (routes.go,
// package shard), sent to the shards that it concerns with the versions by which it was
// targeted (ask.go), and what they answer is merged. A shard that says it was targeted
// by an old route has it read anew, and what had no effect is sent again (retry.go).
//
// What changes the cluster goes to the primary of the config servers under the names
// that mongod's routers use (configsvr.go). A command is a file, as in package node.
//
// Start reading at router.go, then routes.go, ask.go and find.go.
package router
