// Package process has the commands that are the same on every kind of server, with data or
// a router: about the process, its connections, sessions, cursors and parameters. Each
// command has a file.
//
// Start reading at process.go.
package process
