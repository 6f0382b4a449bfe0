package node

import "github.com/mayflydb/mayfly/internal/command"

func (n *Node) updateSearchIndex() *command.Command {
	return n.searchIndexCommand("updateSearchIndex", "Command to update a search index. Only supported with Atlas.",
		command.String("id"), command.String("name"), command.Object("definition").Required())
}
