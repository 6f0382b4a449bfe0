// Package clustertest is a model of a shard in memory, written from
// docs/rfcs/0023-cluster.md: how it executes the requests of the config primary, and
// which statements it accepts. Tests explore the protocols on it, and run the config
// servers against it.
//
// It has no storage, no replication and no sockets. A shard is a value that can be
// copied and compared, and a request takes effect at once.
package clustertest
