package node

import (
	"context"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var dropConnectionsFields = command.NewFields("dropConnections",
	command.ArrayOf("hostAndPort", command.String("")).Required())

// dropConnections closes the connections of Node.Sets to some addresses; a server that is not
// a router has none, and only the addresses are checked.
func (n *Node) dropConnections() *command.Command {
	return &command.Command{
		Name: "dropConnections", Flags: command.AdminOnly, Fields: dropConnectionsFields,
		Help: "Drop egress entries in the connection pool",
		Run: func(_ context.Context, op *command.Op) error {
			for _, address := range op.Args.Strings("hostAndPort") {
				if err := checkAddress(address); err != nil {
					return err
				}
			}
			for _, address := range op.Args.Strings("hostAndPort") {
				for _, s := range n.openSets() {
					s.Drop(address)
				}
			}
			return nil
		},
	}
}

// checkAddress checks "host", "host:port" and "[v6]:port".
func checkAddress(address string) error {
	host, port := address, ""
	if i := strings.LastIndexByte(address, ':'); i > strings.LastIndexByte(address, ']') {
		host, port = address[:i], address[i+1:]
		if port == "" {
			return mongoerr.New(mongoerr.FailedToParse, "Empty port component in \"%s\"", address)
		}
	}
	bracketed := strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]")
	switch {
	case host == "":
		return mongoerr.New(mongoerr.FailedToParse, "Empty host component parsing HostAndPort from \"%s\"", address)
	case strings.Contains(host, ":") && !bracketed:
		return mongoerr.New(mongoerr.FailedToParse, "More than one ':' detected. If this is an ipv6 address, it needs to be surrounded by '[' and ']'; %s", address)
	case port != "":
		if p, err := strconv.Atoi(port); err != nil || p <= 0 || p > 65535 {
			return mongoerr.New(mongoerr.FailedToParse, "Port number %s out of range parsing HostAndPort from \"%s\"", port, address)
		}
	}
	return nil
}
