// Package access decides whether a client may run a command: this package has the table
// of privileges that commands need, for servers with data and for routers. Users and
// their roles are in package account, the meaning of privileges is in package auth.
//
// Start reading at control.go, then needs.go.
package access
