package node

import "github.com/mayflydb/mayfly/internal/command"

func (n *Node) createSearchIndexes() *command.Command {
	return n.searchIndexCommand("createSearchIndexes", "Command to create a search index. Only supported with Atlas.",
		command.ArrayOf("indexes", command.Object("")).Required())
}
