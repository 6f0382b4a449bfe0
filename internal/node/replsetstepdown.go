package node

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Periods of replSetStepDown in seconds, where the client gives none.
const (
	stepDownSecs        = 60
	stepDownCatchUpSecs = 10
	maxStepDownSecs     = 366 * 24 * 3600
)

var replSetStepDownFields = command.NewFields("replSetStepDown", command.Value(command.SafeInt64("")),
	command.SafeInt64("secondaryCatchUpPeriodSecs"), command.SafeBool("force")).Lenient()

// replSetStepDown makes the primary hand over to another member, and not stand
// for election for a number of seconds. (Manual: database command
// replSetStepDown.)
func (n *Node) replSetStepDown() *command.Command {
	return &command.Command{
		Name: "replSetStepDown", Run: n.runReplSetStepDown,
		Help: "{ replSetStepDown : <seconds> }\nStep down as primary.  Will not try to reelect self for the specified time period (1 minute if no numeric secs value " +
			"specified, or secs is 0).\n(If another member with same priority takes over in the meantime, it will stay primary.)\nhttp://dochub.mongodb.org/core/replicasetcommands",
	}
}

func (n *Node) runReplSetStepDown(ctx context.Context, op *command.Op) error {
	a, err := command.Parse(op, replSetStepDownFields)
	if err != nil {
		return err
	}
	force := a.Bool("force")
	period := a.Int64("replSetStepDown")
	if period == 0 {
		period = stepDownSecs
	}
	catchUp := int64(stepDownCatchUpSecs)
	if force {
		catchUp = 0
	}
	catchUp = a.Int64Or("secondaryCatchUpPeriodSecs", catchUp)
	switch {
	case period < 0:
		return mongoerr.New(mongoerr.BadValue, "stepdown period must be a positive integer")
	case catchUp < 0:
		return mongoerr.New(mongoerr.BadValue, "secondaryCatchUpPeriodSecs period must be a positive or absent")
	case period < catchUp:
		return mongoerr.New(mongoerr.BadValue, "stepdown period must be longer than secondaryCatchUpPeriodSecs")
	}
	if _, err := n.setState(); err != nil {
		return err
	}
	return n.Dispatcher.Member.StepDown(ctx, seconds(period), seconds(catchUp), force)
}

// seconds returns a duration in seconds, at most a year and a day.
func seconds(n int64) time.Duration { return time.Duration(min(n, maxStepDownSecs)) * time.Second }
