// Package pipeline is the language of aggregation: it parses stages, moves and
// joins them, and runs them over documents from any iterator. It knows no storage: a
// stage asks a World for what it needs of the server.
//
// A stage is one file: its parser, entered in the table of stage.go, and the
// iterator that runs it. Start reading at pipeline.go, then stage.go.
package pipeline
