// Package doctor says in plain words what is wrong with a server, a replica set or a cluster,
// and what to do.
//
// Examine asks one server what it belongs to, then each server of that (gather.go), and has
// every check of a table look at the replies (check.go). A check is a function of facts, without
// I/O: each has a file or shares one with those about the same thing. What could not be asked is
// a finding, too.
//
// Servers are asked through an interface, over the wire (wire.go) or by whoever has another way.
// `mayfly doctor` prints the report.
//
// Start reading at check.go, then gather.go.
package doctor
