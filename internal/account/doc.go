// Package account is users and roles: as documents in admin.system.users and
// admin.system.roles, as the commands that change and show them, one file per
// command, and as what clients log in as (authentication.go). Package auth says
// what they mean and decides; this one stores.
//
// A Store (store.go) changes them one at a time, each change in one unit
// (change.go). Every change begins a new generation: what a client may do is
// resolved anew when its next operation finds its principal to be of an older one
// (client.go). What each command needs of its client is in needs.go.
//
// Start reading at store.go, then createuser.go.
package account
