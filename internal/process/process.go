package process

import (
	"context"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// Version is the version of MongoDB whose behaviour this server shows.
const Version = "8.0.15"

// GitVersion is reported in place of the commit that mongod was built from.
const GitVersion = "nogitversion"

// The kinds of processes.
const (
	Mongod = "mongod"
	Mongos = "mongos"
)

var versionArray = [4]int32{8, 0, 15, 0}

// Process gives these commands access to the server process. A function may be nil if
// the process has no such feature.
type Process struct {
	// Kind is "mongod" for a server with data, "mongos" for a router.
	Kind string
	// StartTime is when it started.
	StartTime time.Time
	// Argv is the command line, Parsed the options in the shape of a configuration
	// file.
	Argv   []string
	Parsed bson.Doc
	// Host is "name:port".
	Host string
	// DBPath is the directory of the data; "" if there is none.
	DBPath string
	// Log is the server's log.
	Log ServerLog
	// RotateAudit starts a new file of the audit log; nil if there is none.
	RotateAudit func() error
	// JavaScriptEngine is the name of the engine for clients' functions; "" for none.
	JavaScriptEngine string
	// Connections and Traffic count since start.
	Connections func() Connections
	Traffic     func() Traffic
	// TLS is what the process has of TLS; nil for none.
	TLS TLS
	// Compressors are the names that the server offers, in its order.
	Compressors []string
	// Flush makes all writes durable.
	Flush func(ctx context.Context) error
	// PauseIdleCompaction stops idle compaction until ResumeIdleCompaction has been
	// called as often. Either both or neither are nil.
	PauseIdleCompaction  func(ctx context.Context) error
	ResumeIdleCompaction func()
	// Shutdown asks the process to stop and returns at once. yields says that another
	// member of its set may take over first; false if that was tried already.
	Shutdown func(yields bool)
	// LocalhostOnly says that only a client on this machine may shut the server down. It
	// is set without access control.
	LocalhostOnly bool
}

// ServerLog is the part of the server's log that getLog and logRotate use.
type ServerLog interface {
	// Names returns the names of the logs in memory.
	Names() []string
	// Lines returns the last lines of one of them, the number of lines since start, and
	// whether the log exists.
	Lines(name string) (lines []string, total int64, ok bool)
	// Rotate starts a new file.
	Rotate() error
}

// Connections counts connections.
type Connections struct {
	Current, Available, Active, Awaiting int64
	Created, Rejected                    int64
	// TLS are those since start that spoke TLS 1.0, 1.1, 1.2 and 1.3.
	TLS [4]int64
}

// Traffic counts network traffic.
type Traffic struct {
	BytesIn, BytesOut, Requests int64
	// Compression has a document for each compressor, or is nil.
	Compression bson.Doc
}

// Name returns the name of the machine, as replies print it.
func (p *Process) Name() string {
	if p.Host != "" {
		return p.Host
	}
	name, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return name
}

// ServerInfo names this server in explain's replies.
func (p *Process) ServerInfo() bson.Doc {
	name, port, err := net.SplitHostPort(p.Name())
	if err != nil {
		name = p.Name()
	}
	number, _ := strconv.Atoi(port)
	return new(bson.Builder).String("host", name).Int32("port", int32(number)).String("version", Version).
		String("gitVersion", GitVersion).Finish()
}

// Commands returns the commands of this package.
func (p *Process) Commands() []*command.Command {
	return []*command.Command{
		p.ping(), p.buildInfo(), p.hostInfo(), p.whatsMyURI(), p.connectionStatus(), p.serverStatus(), p.getCmdLineOpts(), p.getLog(),
		p.logRotate(), p.listCommands(), p.features(), p.getParameter(), p.setParameter(),
		p.startSession(), p.endSessions(), p.refreshSessions(), p.killSessions(), p.killAllSessions(), p.killAllSessionsByPattern(),
		p.getMore(), p.killCursors(), p.shutdown(), p.rotateCertificates(),
	}
}
