// Package access decides whether a client may run a command: what each command needs of
// its client is a table here, which servers with data and routers share. What a user has
// is package account's, what privileges mean package auth's.
//
// Start reading at control.go, then needs.go.
package access
