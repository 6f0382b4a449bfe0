package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// The commands about search indexes exist on every server, and fail with
// SearchNotEnabled on those without a search process. (Manual: database command
// createSearchIndexes and the three beside it.)
func (n *Node) searchIndexCommand(name, help string, fields ...command.Field) *command.Command {
	return &command.Command{
		Name: name, Fields: command.NewFields(name, append([]command.Field{command.Collection()}, fields...)...), Help: help,
		Run: func(context.Context, *command.Op) error { return pipeline.NoSearchIndexes() },
	}
}

func (n *Node) createSearchIndexes() *command.Command {
	return n.searchIndexCommand("createSearchIndexes", "Command to create a search index. Only supported with Atlas.",
		command.ArrayOf("indexes", command.Object("")).Required())
}

func (n *Node) dropSearchIndex() *command.Command {
	return n.searchIndexCommand("dropSearchIndex", "Command to drop a search index. Only supported with Atlas.",
		command.String("id"), command.String("name"))
}

func (n *Node) listSearchIndexes() *command.Command {
	return n.searchIndexCommand("listSearchIndexes", "Command to list search indexes. Only supported with Atlas.",
		command.String("id"), command.String("name"), command.Object("cursor"))
}

func (n *Node) updateSearchIndex() *command.Command {
	return n.searchIndexCommand("updateSearchIndex", "Command to update a search index. Only supported with Atlas.",
		command.String("id"), command.String("name"), command.Object("definition").Required())
}
