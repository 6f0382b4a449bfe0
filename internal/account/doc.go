// Package account has users and roles: their documents in admin.system.users
// and admin.system.roles, the commands that change and show them, one file per
// command, and logins by passwords (authentication.go) and certificates (authenticate.go). Package auth defines what they mean
// and decides; this one stores.
//
// A Store (store.go) changes them one at a time, each change in one unit
// (change.go). Every change begins a new generation: what a client may do is
// resolved again when its next operation finds that its principal is of an older
// one (client.go). What each command needs of its client is in needs.go.
//
// Start reading at store.go, then createuser.go.
package account
