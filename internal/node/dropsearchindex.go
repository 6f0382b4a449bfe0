package node

import "github.com/mayflydb/mayfly/internal/command"

func (n *Node) dropSearchIndex() *command.Command {
	return n.searchIndexCommand("dropSearchIndex", "Command to drop a search index. Only supported with Atlas.",
		command.String("id"), command.String("name"))
}
