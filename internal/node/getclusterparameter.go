package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var getClusterParameterFields = command.NewFields("getClusterParameter",
	command.Value(command.OneOf("", bson.TypeString, bson.TypeArray).NotNull().Required())).Lenient()

// getClusterParameter returns the values of cluster parameters: one, a list, or
// all ("*").
func (n *Node) getClusterParameter() *command.Command {
	return &command.Command{
		Name: "getClusterParameter", Flags: command.AdminOnly, Fields: getClusterParameterFields,
		Help: "Get cluster parameter value(s)", Run: n.runGetClusterParameter,
	}
}

func (n *Node) runGetClusterParameter(_ context.Context, op *command.Op) error {
	asked, err := clusterNames(op.Args.Value("getClusterParameter"))
	if err != nil {
		return err
	}
	b := op.Reply.OpenArray("clusterParameters")
	for i, p := range asked {
		d, err := n.clusterValue(p)
		if err != nil {
			return err
		}
		b.Doc(bson.Index(i), d)
	}
	b.Close()
	return nil
}

func clusterNames(v bson.Value) ([]*clusterParameter, error) {
	var asked []*clusterParameter
	if v.Type == bson.TypeString {
		if v.Str() == "*" {
			for i := range clusterParameterList {
				asked = append(asked, &clusterParameterList[i])
			}
			return asked, nil
		}
		p, err := findClusterParameter(v.Str())
		return append(asked, p), err
	}
	seen := map[string]bool{}
	for name := range v.Doc().Values() {
		if name.Type != bson.TypeString {
			return nil, mongoerr.New(mongoerr.TypeMismatch, "BSON field 'getClusterParameter.getClusterParameter' is the wrong type '%s', expected type 'string'", name.Type)
		}
		p, err := findClusterParameter(name.Str())
		if err != nil {
			return nil, err
		}
		if !seen[p.name] {
			seen[p.name] = true
			asked = append(asked, p)
		}
	}
	if len(asked) == 0 {
		return nil, mongoerr.New(mongoerr.BadValue, "Must supply at least one cluster server parameter name to getClusterParameter")
	}
	return asked, nil
}
