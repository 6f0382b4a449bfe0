// Package clustertest is a shard in memory that follows the page on clusters
// (docs/rfcs/0023-cluster.md): what a shard does when the config primary asks it,
// and which statements it answers. Protocols are explored on it, and the config
// servers are tested against it.
//
// It has no storage, no replication and no sockets; a shard is a value that can be
// copied and compared. What a request does, it does at once.
package clustertest
