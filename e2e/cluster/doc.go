// Package cluster runs whole clusters as processes, config servers, shards and routers,
// and looks at them through drivers. It has tests only.
//
// TestKilledUnderLoad has been seen to fail with bugs planted by hand: a recipient that drops
// a document of fifty, keeps what was deleted during the copy, or does not take what was
// written during it, and statements that are executed again when they are retried. What a
// session has executed and a move forgets is found by TestRetryAfterMove of package shardsvr.
// TestNemesisThroughRouters has found a removal of a range that took other chunks with it.
package cluster
