package process

import (
	"context"
	"os"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// services are the names of the services, which clients see, by kind of process.
var services = map[string]string{Mongod: "shard", Mongos: "router"}

// serverStatus returns the state of the server: the head below, and the
// sections of its parts. {section: 0} leaves one out, {section: 1} includes one
// that is otherwise left out.
func (p *Process) serverStatus() *command.Command {
	return &command.Command{
		Name: "serverStatus", Flags: command.Quiet, Help: "returns lots of administrative server statistics", Run: p.runServerStatus,
	}
}

func (p *Process) runServerStatus(ctx context.Context, op *command.Op) error {
	p.WriteStatus(ctx, op, op.Reply)
	return nil
}

// WriteStatus writes the reply of serverStatus into b.
func (p *Process) WriteStatus(ctx context.Context, op *command.Op, b *bson.Builder) {
	up := time.Since(p.StartTime)
	b.String("host", p.Name()).String("version", Version).String("process", p.Kind).
		Strings("service", services[p.Kind]).Int64("pid", int64(os.Getpid())).Double("uptime", float64(up/time.Second)).
		Int64("uptimeMillis", up.Milliseconds()).Int64("uptimeEstimate", int64(up/time.Second)).
		Date("localTime", op.Dispatcher.Wall.Now().UnixMilli())
	all := op.Body.Lookup("all").Truthy()
	for _, s := range op.Dispatcher.Status.Sections() {
		wanted := all || !s.OnDemand
		if named(op.Body, s.Name) {
			v := op.Body.Lookup(s.Name)
			wanted = v.Truthy()
		}
		if wanted {
			b.Value(s.Name, s.Value(ctx, op))
		}
	}
}

// RegisterStatus adds the sections about the process.
func (p *Process) RegisterStatus(s *command.Status) {
	s.Document("connections", p.appendConnections)
	s.Document("network", p.appendNetwork)
	s.Document("security", p.appendSecurity)
	s.Document("transportSecurity", p.appendTransportSecurity)
	s.Document("mem", appendMemory)
	s.Document("extra_info", appendExtraInfo)
}

func (p *Process) appendConnections(b *bson.Builder) {
	var c Connections
	if p.Connections != nil {
		c = p.Connections()
	}
	b.Int("current", c.Current).Int("available", c.Available).Int("totalCreated", c.Created).Int("rejected", c.Rejected).
		Int("active", c.Active).Int("threaded", c.Current).Int("exhaustIsMaster", 0).Int("exhaustHello", c.Awaiting).
		Int("awaitingTopologyChanges", c.Awaiting)
}

// appendTransportSecurity writes how many connections spoke each version of TLS.
func (p *Process) appendTransportSecurity(b *bson.Builder) {
	var c Connections
	if p.Connections != nil {
		c = p.Connections()
	}
	for i, name := range [...]string{"1.0", "1.1", "1.2", "1.3"} {
		b.Int64(name, c.TLS[i])
	}
	b.Int64("unknown", 0)
}

func (p *Process) appendNetwork(b *bson.Builder) {
	var t Traffic
	if p.Traffic != nil {
		t = p.Traffic()
	}
	b.Int64("bytesIn", t.BytesIn).Int64("bytesOut", t.BytesOut).Int64("physicalBytesIn", t.BytesIn).
		Int64("physicalBytesOut", t.BytesOut).Int64("numSlowDNSOperations", 0).Int64("numSlowSSLOperations", 0).
		Int64("numRequests", t.Requests)
	if t.Compression != nil {
		b.Doc("compression", t.Compression)
	}
}
