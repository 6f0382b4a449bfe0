package process

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Limits that hello reports to clients.
const (
	MaxBsonObjectSize   = 16 << 20
	maxMessageSizeBytes = 48_000_000
	minWireVersion      = 0
	MaxWireVersion      = 25
	// MaxWriteBatch bounds the documents or statements of one write command.
	MaxWriteBatch = 100000
)

// helloFields are the fields that clients send. Others are ignored, as drivers add new ones.
var helloFields = command.NewFields("hello",
	command.Struct("topologyVersion", command.NewFields("topologyVersion",
		command.OneOf("processId", bson.TypeObjectID).Required(), command.Int64("counter").Required())),
	command.SafeInt64("maxAwaitTimeMS"), command.Any("saslSupportedMechs"), command.Any("client"),
	command.Any("compression"), command.SafeBool("helloOk"), command.Any("speculativeAuthenticate"),
	command.Any("internalClient"), command.Ignored("hostInfo"), command.Ignored("loadBalanced")).Lenient()

// Hello declares hello, with which drivers open connections and monitor servers.
func Hello(run command.Handler) *command.Command {
	return &command.Command{
		Name: "hello", Flags: command.NoAuth | command.APIv1 | command.Quiet, Fields: helloFields,
		Help: "Status information for clients negotiating a connection with this server", Run: run,
	}
}

// IsMaster declares hello under its old name, with the old name of its first field.
func IsMaster(run command.Handler) *command.Command {
	return &command.Command{
		Name: "isMaster", Aliases: []string{"ismaster"}, Flags: command.NoAuth | command.Quiet, Fields: helloFields,
		Help: "Check if this server is primary for a replica set\n{ isMaster : 1 }", Run: run,
	}
}

// PrimaryField is the name of the field in which hello, or isMaster, reports whether the
// server accepts writes.
func PrimaryField(hello bool) string {
	if hello {
		return "isWritablePrimary"
	}
	return "ismaster"
}

// AwaitTopology waits for a change of the topology if op's client asks for that. It
// returns a topologyVersion that is not newer than the role which the caller reads
// afterwards. Error 91 once the server quiesces.
func AwaitTopology(ctx context.Context, op *command.Op) (told bson.Value, err error) {
	if err := awaitTopology(ctx, op); err != nil {
		return told, err
	}
	if err := op.Dispatcher.Stopping(); err != nil {
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

// AppendHello appends the fields of hello that every kind of server has: its limits, the
// time, the connection, and the common compressors.
func (p *Process) AppendHello(b *bson.Builder, op *command.Op) {
	b.Int32("maxBsonObjectSize", MaxBsonObjectSize).Int32("maxMessageSizeBytes", maxMessageSizeBytes).
		Int32("maxWriteBatchSize", MaxWriteBatch).Date("localTime", op.Dispatcher.Wall.Now().UnixMilli()).
		Int32("logicalSessionTimeoutMinutes", int32(command.SessionTimeout/time.Minute)).
		Int("connectionId", op.Client.ConnectionID).Int32("minWireVersion", minWireVersion).
		Int32("maxWireVersion", MaxWireVersion)
	if p.Kind == Mongod {
		b.Bool("readOnly", false)
	}
	if said := op.Args.Value("client"); said.Type == bson.TypeDocument && client.SaysProtocol(said.Doc()) {
		client.AppendProtocol(b)
	}
	p.negotiateCompression(b, op.Args.Value("compression"))
}

// awaitTopology waits for a change of the topology if the client asks for that. On a
// standalone nothing changes, so it waits until maxAwaitTimeMS is over.
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
		return nil // the version is of another process: reply at once
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
	case <-d.Quiesced():
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// withTopologyVersion returns the next request of a stream of replies (exhaust): hello
// with the latest version. With the original one, every reply after the first change
// would be immediate.
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

// negotiateCompression replies with the compressors that the server supports, in the
// client's order.
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
