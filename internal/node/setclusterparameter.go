package node

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var setClusterParameterFields = command.NewFields("setClusterParameter", command.Value(command.Object("").Required())).Lenient()

// setClusterParameter sets one cluster parameter, durably.
func (n *Node) setClusterParameter() *command.Command {
	return &command.Command{
		Name: "setClusterParameter", Flags: command.AdminOnly, Fields: setClusterParameterFields,
		Help: "Set cluster parameter on replica set or node", Run: n.runSetClusterParameter,
	}
}

func (n *Node) runSetClusterParameter(ctx context.Context, op *command.Op) error {
	if n.shard || n.ConfigServer {
		return mongoerr.New(mongoerr.NotImplemented, "setClusterParameter can only run on mongos in sharded clusters")
	}
	name, fields, err := ParseClusterParameter(op.Args.Doc("setClusterParameter"))
	if err != nil {
		return err
	}
	return n.setClusterValue(ctx, name, fields)
}

// ParseClusterParameter parses {name: value}, and returns all fields of the value, those left
// out with their defaults.
func ParseClusterParameter(d bson.Doc) (name string, fields bson.Doc, err error) {
	if d.Len() > 1 {
		return "", nil, mongoerr.New(mongoerr.InvalidOptions, "setClusterParameter only supports setting exactly one parameter")
	}
	name, v := d.First()
	p, err := findClusterParameter(name)
	if err != nil {
		return "", nil, err
	}
	if v.Type != bson.TypeDocument {
		return "", nil, mongoerr.New(mongoerr.BadValue, "Cluster parameter value must be an object")
	}
	for field := range v.Doc().All() {
		if strings.HasPrefix(field, "$") {
			return "", nil, mongoerr.New(mongoerr.DollarPrefixedFieldName,
				"The dollar ($) prefixed field '%s' in '%s' is not valid for storage.", field, field)
		}
	}
	fields, err = p.parse(v.Doc())
	return name, fields, err
}
