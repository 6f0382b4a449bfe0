package process

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
)

// CheckPeer refuses a connection of a build of Mayfly that this one does not understand, by the
// first hello of the connection. Builds from before 0.1.0 say nothing of that: a part of a
// cluster refuses them, other servers let their tools in. Error 188.
func CheckPeer(op *command.Op, inCluster bool) error {
	said := op.Args.Value("client")
	if said.Type != bson.TypeDocument {
		return nil
	}
	driver := said.Doc().Lookup("driver")
	if driver.Type != bson.TypeDocument || driver.Doc().Lookup("name").Type != bson.TypeString || driver.Doc().Lookup("name").Str() != client.DriverName {
		return nil
	}
	if !inCluster && !client.SaysProtocol(said.Doc()) {
		return nil
	}
	return client.CheckProtocol(said.Doc(), "This client")
}
