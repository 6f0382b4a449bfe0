// Package audit keeps the audit log: who did what to the server, in the form of mongod 8.0's
// (manual: "System Event Audit Messages", schema mongo), one event a line. It implements
// command.Auditor: the dispatcher tells it of each command, the parts of the server of what no
// command's name tells.
//
// An event that cannot be written stops what is to be audited: logins and the commands that
// leave events are refused with error 14031 until the log can be written again; shutdown and
// logRotate are not. What the server did meanwhile is kept, up to a bound, and written first
// then, with an event auditGap that counts what is lost. Where to write is for the server to
// say (Output).
//
// Start reading at log.go.
package audit
