// Package stage is the protocol of a running plan: stages (Stage) that are pulled, one
// unit of work (State) at a time, for rows (Row), and that count what they do (Stats).
// The stages themselves are in package exec, but for those that have a package of their
// own. Start reading at stage.go.
package stage
