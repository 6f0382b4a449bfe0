package node

import (
	"context"
	"sync/atomic"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// The feature compatibility versions that can be set. Nothing here depends on
// them: data files have a version of their own.
const (
	latestFCV  = "8.0"
	lastLTSFCV = "7.0"
)

// fcv is the feature compatibility version in effect.
type fcv struct{ v atomic.Pointer[string] }

func (f *fcv) get() string {
	if s := f.v.Load(); s != nil {
		return *s
	}
	return latestFCV
}

// document is the parameter featureCompatibilityVersion.
func (f *fcv) document() bson.Value {
	return bson.Document(new(bson.Builder).String("version", f.get()).Finish())
}

var setFCVFields = command.NewFields("setFeatureCompatibilityVersion", command.Value(command.String("").Required()),
	command.SafeBool("confirm"), command.Bool("downgradeOnDiskChanges"), command.Bool("fromConfigServer"))

// setFeatureCompatibilityVersion sets the version that clients read back.
func (n *Node) setFeatureCompatibilityVersion() *command.Command {
	return &command.Command{
		Name: "setFeatureCompatibilityVersion", Flags: command.AdminOnly | command.TakesWriteConcern, Fields: setFCVFields,
		Help: "Set the featureCompatibilityVersion used by this server.", Run: n.runSetFCV,
	}
}

func (n *Node) runSetFCV(_ context.Context, op *command.Op) error {
	want := op.Args.Str("setFeatureCompatibilityVersion")
	if want != latestFCV && want != lastLTSFCV {
		return mongoerr.New(mongoerr.Code(4926900), "Invalid feature compatibility version value '%s'; expected '%s' or '%s'. "+
			"See https://docs.mongodb.com/manual/reference/command/setFeatureCompatibilityVersion/.", want, lastLTSFCV, latestFCV)
	}
	if !op.Args.Bool("confirm") {
		return mongoerr.New(mongoerr.Code(7369100), "Once you have changed the feature compatibility version of your cluster, "+
			"you will not be able to change it back without a full restore. If you are sure, run this command again with 'confirm: true'.")
	}
	want = string([]byte(want))
	n.fcv.v.Store(&want)
	return nil
}
