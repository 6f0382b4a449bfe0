package config

import (
	"slices"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/seal"
)

// Options are all options in effect. They are not changed after Load.
type Options struct {
	ConfigFile    string
	Net           Net
	Security      Security
	Replication   Replication
	Sharding      Sharding
	Storage       Storage
	Log           Log
	Audit         Audit
	Process       Process
	Profile       Profile
	Admin         Admin
	Cosmos        Cosmos
	Console       Console
	Telemetry     Telemetry
	SetParameters []Parameter // as given, in order of strength: the last of a name counts

	argv     []string
	explicit []Setting
}

// Net says where the server listens.
type Net struct {
	Port           int
	BindIP         []string // addresses, host names, and paths of unix sockets
	BindIPAll      bool
	IPv6           bool
	MaxConnections int
	Compressors    []string
	UnixSocket     bool
	UnixSocketDir  string
	UnixSocketMode int // permissions of the socket's file
	ListenBacklog  int // 0: the system's
	TLS            TLS
}

// Security says what clients may do.
type Security struct {
	JavaScript    bool // run their JavaScript
	Authorization bool // check what each may do
	RedactLogs    bool // keep what clients give out of the log
	// KeyFile has the Keys by which members of a replica set know each other; "" for none.
	// A member accepts each of them, and shows the first.
	KeyFile string
	Keys    []string
	// ClusterAuth is how servers of a set or cluster know each other: AuthKeyFile, AuthX509,
	// or a step between them.
	ClusterAuth string
	// Encryption has all files of the data directory encrypted, under the EncryptionKey of
	// EncryptionKeyFile, or by EncryptionKeyCommand.
	Encryption                              bool
	EncryptionKeyFile, EncryptionKeyCommand string
	EncryptionCipher                        string // "AES256-GCM", the only one
	EncryptionKey                           seal.Key
}

// MasterKey is the one of the data directory; nil if that is not encrypted.
func (s *Security) MasterKey() seal.Master {
	switch {
	case !s.Encryption:
		return nil
	case s.EncryptionKeyCommand != "":
		return seal.CommandMaster(s.EncryptionKeyCommand)
	}
	return seal.KeyMaster(s.EncryptionKey)
}

// Replication says of which replica set the server is a member.
type Replication struct {
	Set         string // its name; "" for a standalone
	Initiate    bool   // found it where the data are of none
	Advertise   string // host:port by which clients and members reach this server; "" is what it listens on
	OplogSizeMB int    // 0: chosen from the size of the disk
	// OplogMinimum is for how many hours entries stay in the log. OplogMinimumSoft says that
	// nobody has asked for that: then it gives way to the size.
	OplogMinimum     float64
	OplogMinimumSoft bool
}

// The roles that a server can have in a cluster.
const (
	ConfigServer = "configsvr"
	ShardServer  = "shardsvr"
)

// Sharding says what part of a cluster the process is.
type Sharding struct {
	// ConfigDB are the config servers that a router asks: "cfg/h1:27019,h2:27019".
	ConfigDB string
	Role     string // of a server: ConfigServer, ShardServer, or "" for none
	// IsConfigServer and IsShardServer are other words for the roles.
	IsConfigServer, IsShardServer bool
}

// OplogRetention is OplogMinimum as a time.
func (r Replication) OplogRetention() time.Duration {
	return time.Duration(r.OplogMinimum * float64(time.Hour))
}

// Storage says where and how data is kept.
type Storage struct {
	DBPath                  string
	CacheSizeGB             float64 // 0: chosen from the memory of the machine
	JournalCommitIntervalMS int
	Engine                  string // always ours; "wiredTiger" is taken for scripts that say it
}

// JournalCommitInterval is how long a write that asked for no journal may stay
// out of it.
func (s Storage) JournalCommitInterval() time.Duration {
	return time.Duration(s.JournalCommitIntervalMS) * time.Millisecond
}

// CacheBytes is the size of the cache asked for, or 0.
func (s Storage) CacheBytes() int64 { return int64(s.CacheSizeGB * (1 << 30)) }

// Log says what is logged and where.
type Log struct {
	Path               string // "" is standard output
	Destination        string // "", "file" or "syslog"
	Append             bool
	Rotate             string // "rename" or "reopen"
	Quiet              bool
	Verbosity          int
	ComponentVerbosity map[string]int // by the component's path: "storage.journal"
	TimeStampFormat    string         // "iso8601-local" or "iso8601-utc"
}

// Audit says what is kept for auditors, and where.
type Audit struct {
	Destination string // "" for nowhere, "file", "console" or "syslog"
	Format      string // "JSON" or "BSON"
	Path        string
	Filter      string // a query in JSON; "" for all events
}

// Process says how the process lives.
type Process struct {
	PIDFile string
	// OperationMemoryGB is what operations share; 0: chosen from the memory of the machine.
	OperationMemoryGB float64
	TimeZoneInfo      string // taken and not needed: the binary has its own
}

// OperationMemory is the memory asked for operations in bytes, or 0.
func (p Process) OperationMemory() int64 { return int64(p.OperationMemoryGB * (1 << 30)) }

// Profile holds the defaults of every database's profiler.
type Profile struct {
	Level      int // 0 off, 1 slow operations, 2 all
	SlowMS     int
	SampleRate float64
}

// Console says whether and where the console is served.
type Console struct {
	Enabled bool
	Port    int
	BindIP  []string
	TLS     bool // with the certificates of Net.TLS
}

// Telemetry says where traces and metrics are sent.
type Telemetry struct {
	Endpoint   string // URL of an OpenTelemetry collector; "" for nowhere
	SampleRate float64
	Service    string
}

// Cosmos reports whether and where the Cosmos DB endpoint listens, and what its
// account document says.
type Cosmos struct {
	Enabled           bool
	Port              int
	ComputePort       int // 0 is off
	BindIP            []string
	TLS               string // "on" or "off"
	TLSDirectory      string // of the certificate; "" is one in the data directory
	Key               string // base64; "" is the emulator's
	KeyFile           string // where Key was read from, or ""
	AllowWellKnownKey bool   // let the emulator's key in from elsewhere
	Endpoint          string // URL to advertise; "" is the one a request came to
	Region            string
	Consistency       string
	CrossPartition    bool
}

// The values of admin.access.
const (
	AdminOpen        = "open"
	AdminUser        = "user"
	AdminToken       = "token"
	AdminCertificate = "certificate"
)

// Admin is the HTTP server for metrics, health and profiles.
type Admin struct {
	Port      int // 0: off
	BindIP    []string
	TLS       bool
	Access    []string // what lets in, any of these
	TokenFile string
	Token     string // what TokenFile has, or ""
	Profiles  bool
}

// Parameter is one server parameter given at start.
type Parameter struct {
	Name, Value string
	Place       string // where it stands, for messages
}

// Setting is an option that was set, under its path; a secret's value is
// Masked.
type Setting struct {
	Path  string
	Value any // string, int, float64 or bool
}

// Argv is the command line as it was given, the program's name first, with
// Masked in place of secrets.
func (o *Options) Argv() []string { return o.argv }

// Explicit returns the options that were set somewhere, in the order of the
// table, and then the parameters, under "setParameter.".
func (o *Options) Explicit() []Setting { return o.explicit }

// SocketPath is the unix socket for the port, or "" if none is wanted.
func (n Net) SocketPath(port string) string {
	if !n.UnixSocket {
		return ""
	}
	return strings.TrimSuffix(n.UnixSocketDir, "/") + "/mongodb-" + port + ".sock"
}

// IsSet reports whether the option at path was set.
func (o *Options) IsSet(path string) bool {
	return slices.ContainsFunc(o.explicit, func(s Setting) bool { return s.Path == path })
}
