package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// The commands about search indexes exist on every server, and fail with
// SearchNotEnabled on those without a search process. (Manual: database
// commands createSearchIndexes, dropSearchIndex, listSearchIndexes,
// updateSearchIndex.)
func (n *Node) searchIndexCommand(name, help string, fields ...*command.Field) *command.Command {
	return &command.Command{
		Name: name, Fields: command.NewFields(name, append([]*command.Field{command.Collection()}, fields...)...), Help: help,
		Run: func(context.Context, *command.Op) error { return pipeline.NoSearchIndexes() },
	}
}

// SearchIndexCommands returns the commands about search indexes.
func SearchIndexCommands() []*command.Command {
	n := new(Node)
	return []*command.Command{n.createSearchIndexes(), n.dropSearchIndex(), n.listSearchIndexes(), n.updateSearchIndex()}
}
