// Package changestream makes the events of change streams of the operations of a
// replica set's log. It is pure: package repl reads the log, package node runs the
// streams and looks documents up, package router merges those of shards. Start reading at Maker.Event, then at Token.
//
// An operation has a time of its own, and so has each event (docs/rfcs/0020-oplog.md). The
// position of a stream is a token, and nothing is stored for it
// (docs/rfcs/0026-change-streams.md).
package changestream
