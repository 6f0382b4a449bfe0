// Package pipeline is the language of aggregation: it parses stages, moves and
// joins them, and runs them over documents that come from somewhere. It knows
// no storage: what a stage needs of the server it asks a World for.
//
// A stage is one file: its parser, entered in the table of stage.go, and the
// iterator that runs it. Start reading at pipeline.go, then stage.go.
package pipeline
