package node

import "github.com/mayflydb/mayfly/internal/command"

// logout forgets who the client authenticated as.
func (n *Node) logout() *command.Command {
	return &command.Command{
		Name: "logout", Flags: command.NoAuth | command.APIv1, Fields: command.NewFields("logout"), Help: "de-authenticate", Run: nothing,
	}
}
