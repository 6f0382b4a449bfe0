package node

import "github.com/mayflydb/mayfly/internal/command"

func (n *Node) listSearchIndexes() *command.Command {
	return n.searchIndexCommand("listSearchIndexes", "Command to list search indexes. Only supported with Atlas.",
		command.String("id"), command.String("name"), command.Object("cursor"))
}
