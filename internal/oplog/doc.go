// Package oplog turns the entries of a replica set's log into the documents of
// MongoDB's oplog: {op, ns, ui, o, o2, lsid, txnNumber, stmtId, ts, t, v, wall}. It is
// pure; package repl reads the log. Start reading at Entry, then at Diff.
//
// An entry has as many documents as operations, and each of them has its own time: the
// proposer takes that many from the clock (docs/rfcs/0020-oplog.md).
package oplog
