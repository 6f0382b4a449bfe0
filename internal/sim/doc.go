// Package sim judges histories: what clients of a replica set asked and were
// answered, from a simulation in virtual time or from real processes. Register
// histories go to porcupine (register.go), histories of transactions on lists to
// a checker of our own (listappend.go): strictly serializable, or under snapshot isolation.
//
// Start reading at listappend.go.
package sim
