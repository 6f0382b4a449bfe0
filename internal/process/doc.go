// Package process has the commands that every kind of server answers, one with data or
// a router: about the process, its connections, sessions, cursors and parameters. A
// command is a file.
//
// Start reading at process.go.
package process
