// Package node is the data-bearing member: the commands that a server with
// storage answers, one file per command. A file declares the command's
// arguments, its handler, and nothing that another command needs.
//
// Start reading at node.go, which lists the commands, then at ping.go for the
// shape of the smallest command.
package node
