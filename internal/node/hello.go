package node

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/account"
	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Limits that hello tells clients.
const (
	maxBsonObjectSize   = 16 << 20
	maxMessageSizeBytes = 48_000_000
	minWireVersion      = 0
	maxWireVersion      = 25
)

// helloFields are what clients send; others are ignored, as drivers add to them.
var helloFields = command.NewFields("hello",
	command.Struct("topologyVersion", command.NewFields("topologyVersion",
		command.OneOf("processId", bson.TypeObjectID).Required(), command.Int64("counter").Required())),
	command.SafeInt64("maxAwaitTimeMS"), command.Any("saslSupportedMechs"), command.Any("client"),
	command.Any("compression"), command.SafeBool("helloOk"), command.Any("speculativeAuthenticate"),
	command.Any("internalClient"), command.Ignored("hostInfo"), command.Ignored("loadBalanced")).Lenient()

// hello answers the first message of every driver, and its watch over the
// server: what this member is and what it can do.
func (n *Node) hello() *command.Command {
	return &command.Command{
		Name: "hello", Flags: command.NoAuth | command.APIv1 | command.Quiet, Fields: helloFields,
		Help: "Status information for clients negotiating a connection with this server", Run: n.runHello,
	}
}

// isMaster is hello under its old name, with an old name for its first field.
func (n *Node) isMaster() *command.Command {
	return &command.Command{
		Name: "isMaster", Aliases: []string{"ismaster"}, Flags: command.NoAuth | command.Quiet, Fields: helloFields,
		Help: "Check if this server is primary for a replica set\n{ isMaster : 1 }", Run: n.runHello,
	}
}

func (n *Node) runHello(ctx context.Context, op *command.Op) error {
	a := &op.Args
	if err := clientMetadata(op); err != nil {
		return err
	}
	user, err := account.MechanismsUser(a.Value("saslSupportedMechs"))
	if err != nil {
		return err
	}
	if err := n.awaitTopology(ctx, op); err != nil {
		return err
	}
	var version bson.Builder // of before the role is looked at
	n.Dispatcher.AppendTopologyVersion(&version)
	told := version.Finish().Lookup("topologyVersion")
	if a.Has("topologyVersion") {
		op.NextBody = withTopologyVersion(op.Body, told)
	}
	b := op.Reply
	if a.Bool("helloOk") {
		b.Bool("helloOk", true)
	}
	if m := n.Dispatcher.Member; m != nil {
		b.Value("topologyVersion", told)
		appendRole(b, m, op.Command.Name == "hello")
	} else {
		b.Bool(primaryField(op.Command.Name == "hello"), true)
		b.Value("topologyVersion", told)
	}
	b.Int32("maxBsonObjectSize", maxBsonObjectSize).Int32("maxMessageSizeBytes", maxMessageSizeBytes).
		Int32("maxWriteBatchSize", maxWriteBatch).Date("localTime", time.Now().UnixMilli()).
		Int32("logicalSessionTimeoutMinutes", int32(command.SessionTimeout/time.Minute)).
		Int("connectionId", op.Client.ConnectionID).Int32("minWireVersion", minWireVersion).
		Int32("maxWireVersion", maxWireVersion).Bool("readOnly", false)
	n.negotiateCompression(b, a.Value("compression"))
	if user == nil && a.Value("speculativeAuthenticate").Type != bson.TypeDocument {
		return nil
	}
	return n.inside(ctx, func(ctx context.Context) error { return n.helloAuthentication(ctx, op, user) })
}

// helloAuthentication answers what hello asks about a user, and takes the first
// step of an authentication that it brings along. Where that fails, the client
// begins anew with saslStart.
func (n *Node) helloAuthentication(ctx context.Context, op *command.Op, name *auth.UserName) error {
	if name != nil {
		u, err := n.accounts.User(*name)
		if err != nil {
			return err
		}
		if u != nil {
			op.Reply.Strings("saslSupportedMechs", u.Mechanisms()...)
		}
	}
	if v := op.Args.Value("speculativeAuthenticate"); v.Type == bson.TypeDocument {
		if answer := n.accounts.Speculate(ctx, op, v.Doc()); answer != nil {
			op.Reply.Doc("speculativeAuthenticate", answer)
		}
	}
	return nil
}

// primaryField is the name by which hello, or isMaster, says that writes are taken.
func primaryField(hello bool) string {
	if hello {
		return "isWritablePrimary"
	}
	return "ismaster"
}

// awaitTopology waits, where the client asks for it, until what hello tells
// changes: on a standalone never, so that is until the client's time is over.
func (n *Node) awaitTopology(ctx context.Context, op *command.Op) error {
	a := &op.Args
	known, given := a.Struct("topologyVersion")
	wait := a.Int64("maxAwaitTimeMS")
	switch {
	case given != a.Has("maxAwaitTimeMS") && given:
		return mongoerr.New(mongoerr.Code(31368), "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'")
	case given != a.Has("maxAwaitTimeMS"):
		return mongoerr.New(mongoerr.Code(31368), "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'")
	case !given && op.ExhaustAllowed:
		return mongoerr.New(mongoerr.Code(51756), "An isMaster or hello request with exhaust must specify 'maxAwaitTimeMS'")
	case !given:
		return nil
	case known.Int64("counter") < 0:
		return mongoerr.New(mongoerr.Code(31372), "topologyVersion must have a non-negative counter")
	case wait < 0:
		return mongoerr.New(mongoerr.Code(31373), "maxAwaitTimeMS must be a non-negative integer")
	}
	d := n.Dispatcher
	if known.Value("processId").ObjectID() != d.ProcessID {
		return nil // the client knew another process: it hears of this one at once
	}
	var changed <-chan struct{}
	if d.Member != nil {
		changed = d.Member.Changed()
	}
	if now := d.TopologyChanges(); known.Int64("counter") > now {
		return mongoerr.New(mongoerr.Code(31382), "Received a topology version with counter: %d which is greater than the server topology version counter: %d",
			known.Int64("counter"), now)
	} else if known.Int64("counter") < now {
		return nil
	}
	timer := time.NewTimer(time.Duration(wait) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-changed:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// withTopologyVersion is a request for hello by a client that knows this version: how a
// stream of answers goes on. With the one that it began with, each answer after the
// first change would follow at once.
func withTopologyVersion(body bson.Doc, v bson.Value) bson.Doc {
	if bson.CompareDocs(body.Lookup("topologyVersion").Doc(), v.Doc(), nil) == 0 {
		return body
	}
	var b bson.Builder
	for name, was := range body.All() {
		if name == "topologyVersion" {
			was = v
		}
		b.Value(name, was)
	}
	return b.Finish()
}

// negotiateCompression answers with the client's compressors that the server
// has, in the client's order.
func (n *Node) negotiateCompression(b *bson.Builder, v bson.Value) {
	if v.Type != bson.TypeArray {
		return
	}
	var common []string
	for name := range v.Doc().Values() {
		for _, have := range n.Process.Compressors {
			if name.Type == bson.TypeString && name.Str() == have {
				common = append(common, have)
			}
		}
	}
	if len(common) > 0 {
		b.Strings("compression", common...)
	}
}
