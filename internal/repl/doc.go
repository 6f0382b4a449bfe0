// Package repl makes the writes of a process take effect: on a standalone in
// the local engine alone, later through the log of a replicated group. Callers
// see a Committer and not which it is.
//
// Start reading at commit.go.
package repl
