// Package auth decides who may do what: users, roles, privileges and SCRAM, as
// MongoDB has them. It decides and does not store: users and roles are
// documents of admin.system.users and admin.system.roles, which package account
// reads and writes.
//
// A Principal is a user who has authenticated, with all privileges of its roles.
// Whether it may run a command depends on Needs: actions on resources. Package
// access has those of each command.
//
// Start reading at principal.go, then role.go, privilege.go and resource.go. What
// the built-in roles grant is in builtin.go, how a password is checked in scram.go.
package auth
