// Package plancache remembers, for a collection, which plan won the trial of a query's
// shape, and which indexes an operator lets a shape use. Trials are in trial.go of package
// exec.
//
// Start reading at cache.go.
package plancache
