// Package node is the data-bearing member: the commands that a server with storage
// answers, one file per command. A file declares the command's arguments and its
// handler, and nothing that another command needs.
//
// What commands share has files of its own: the check of the privileges that package access
// says each needs (authorize.go), writes (ddl.go, measurements.go), pipelines (aggregate.go,
// pipelinerules.go), what backups read (backupcursor.go, readlog.go). The commands about users and roles are in package account.
//
// Start reading at node.go, which lists the commands, then at ping.go of package process for the shape of
// the smallest command.
package node
