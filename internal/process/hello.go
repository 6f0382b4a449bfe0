package process

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Limits that hello tells clients.
const (
	MaxBsonObjectSize   = 16 << 20
	maxMessageSizeBytes = 48_000_000
	minWireVersion      = 0
	MaxWireVersion      = 25
	// MaxWriteBatch is how many documents or statements one write command holds at most.
	MaxWriteBatch = 100000
)

// helloFields are what clients send; others are ignored, as drivers add to them.
var helloFields = command.NewFields("hello",
	command.Struct("topologyVersion", command.NewFields("topologyVersion",
		command.OneOf("processId", bson.TypeObjectID).Required(), command.Int64("counter").Required())),
	command.SafeInt64("maxAwaitTimeMS"), command.Any("saslSupportedMechs"), command.Any("client"),
	command.Any("compression"), command.SafeBool("helloOk"), command.Any("speculativeAuthenticate"),
	command.Any("internalClient"), command.Ignored("hostInfo"), command.Ignored("loadBalanced")).Lenient()

// Hello declares hello, with which every driver begins and watches a server.
func Hello(run command.Handler) *command.Command {
	return &command.Command{
		Name: "hello", Flags: command.NoAuth | command.APIv1 | command.Quiet, Fields: helloFields,
		Help: "Status information for clients negotiating a connection with this server", Run: run,
	}
}

// IsMaster declares hello under its old name, with an old name for its first field.
func IsMaster(run command.Handler) *command.Command {
	return &command.Command{
		Name: "isMaster", Aliases: []string{"ismaster"}, Flags: command.NoAuth | command.Quiet, Fields: helloFields,
		Help: "Check if this server is primary for a replica set\n{ isMaster : 1 }", Run: run,
	}
}

// PrimaryField is the name of the field by which hello, or isMaster, says that the server
// takes writes.
func PrimaryField(hello bool) string {
	if hello {
		return "isWritablePrimary"
	}
	return "ismaster"
}

// AwaitTopology waits, where op's client asks for it, until what hello tells may have
// changed, and returns the topologyVersion of before the server's role is looked at.
func AwaitTopology(ctx context.Context, op *command.Op) (told bson.Value, err error) {
	if err := awaitTopology(ctx, op); err != nil {
		return told, err
	}
	var version bson.Builder
	op.Dispatcher.AppendTopologyVersion(&version)
	told = version.Finish().Lookup("topologyVersion")
	if op.Args.Has("topologyVersion") {
		op.NextBody = withTopologyVersion(op.Body, told)
	}
	return told, nil
}

// AppendHello writes what every kind of server tells in hello: its limits, the time, the
// connection, and the compressors that both have.
func (p *Process) AppendHello(b *bson.Builder, op *command.Op) {
	b.Int32("maxBsonObjectSize", MaxBsonObjectSize).Int32("maxMessageSizeBytes", maxMessageSizeBytes).
		Int32("maxWriteBatchSize", MaxWriteBatch).Date("localTime", time.Now().UnixMilli()).
		Int32("logicalSessionTimeoutMinutes", int32(command.SessionTimeout/time.Minute)).
		Int("connectionId", op.Client.ConnectionID).Int32("minWireVersion", minWireVersion).
		Int32("maxWireVersion", MaxWireVersion)
	if p.Kind == Mongod {
		b.Bool("readOnly", false)
	}
	p.negotiateCompression(b, op.Args.Value("compression"))
}

// awaitTopology waits, where the client asks for it, until what hello tells
// changes: on a standalone never, so that is until the client's time is over.
func awaitTopology(ctx context.Context, op *command.Op) error {
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
	d := op.Dispatcher
	if known.Value("processId").ObjectID() != d.ProcessID {
		return nil // the client knew another process: it is answered at once
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
func (p *Process) negotiateCompression(b *bson.Builder, v bson.Value) {
	if v.Type != bson.TypeArray {
		return
	}
	var common []string
	for name := range v.Doc().Values() {
		for _, have := range p.Compressors {
			if name.Type == bson.TypeString && name.Str() == have {
				common = append(common, have)
			}
		}
	}
	if len(common) > 0 {
		b.Strings("compression", common...)
	}
}
