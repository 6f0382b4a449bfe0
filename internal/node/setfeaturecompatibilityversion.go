package node

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// featureVersion is the feature compatibility version of the data, on a member of a
// replica set that of the set.
func (n *Node) featureVersion() string {
	if n.Catalog == nil {
		return catalog.LatestFeatureVersion
	}
	version, _, err := n.Catalog.FeatureVersion()
	if err != nil {
		n.Log.Error("Cannot read the feature compatibility version", "c", "COMMAND", "id", 9000013, "error", err.Error())
		return catalog.LatestFeatureVersion
	}
	return version
}

// featureVersionParameter is the parameter featureCompatibilityVersion.
func (n *Node) featureVersionParameter() bson.Value {
	return bson.Document(new(bson.Builder).String("version", n.featureVersion()).Finish())
}

var setFCVFields = command.NewFields("setFeatureCompatibilityVersion", command.Value(command.String("").Required()),
	command.SafeBool("confirm"), command.Bool("downgradeOnDiskChanges"), command.Bool("fromConfigServer"))

// setFeatureCompatibilityVersion sets the version that clients read back, from every
// member of a set.
func (n *Node) setFeatureCompatibilityVersion() *command.Command {
	return &command.Command{
		Name: "setFeatureCompatibilityVersion", Flags: command.AdminOnly | command.TakesWriteConcern, Fields: setFCVFields,
		Help: "Set the featureCompatibilityVersion used by this server.", Run: n.runSetFCV,
	}
}

func (n *Node) runSetFCV(ctx context.Context, op *command.Op) error {
	want := op.Args.Str("setFeatureCompatibilityVersion")
	if !slices.Contains([]string{catalog.LastLTSFeatureVersion, catalog.LatestFeatureVersion}, want) {
		return mongoerr.New(mongoerr.Code(4926900), "Invalid feature compatibility version value '%s'; expected '%s' or '%s'. "+
			"See https://docs.mongodb.com/manual/reference/command/setFeatureCompatibilityVersion/.", want, catalog.LastLTSFeatureVersion, catalog.LatestFeatureVersion)
	}
	if !op.Args.Bool("confirm") {
		return mongoerr.New(mongoerr.Code(7369100), "Once you have changed the feature compatibility version of your cluster, "+
			"you will not be able to change it back without a full restore. If you are sure, run this command again with 'confirm: true'.")
	}
	now, stored, err := n.Catalog.FeatureVersion()
	if err != nil || stored && now == want {
		return err
	}
	return n.Catalog.SetFeatureVersion(ctx, want)
}
