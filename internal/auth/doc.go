// Package auth decides who may do what: users, roles, privileges and SCRAM, as
// MongoDB has them. It decides and does not store: what is kept of users and
// roles are the documents of admin.system.users and admin.system.roles, which
// the node reads and writes.
//
// A Principal is a user who has authenticated, with all that its roles grant.
// Whether it may run a command is a question of Needs: actions on resources. The
// node's table has those of each command.
//
// Start reading at principal.go, then role.go, privilege.go and resource.go. What
// the built-in roles grant is in builtin.go, how a password is checked in scram.go.
package auth
