package config

// option is one row of the table. The type it takes follows from what target
// points at: *string, *int, *float64, *bool, *[]string (separated by commas),
// one of the types in value.go, or *[]Parameter.
type option struct {
	path    string   // in the YAML file, and where it lies in getCmdLineOpts
	flag    string   // on the command line, without dashes; "" for none
	short   string   // one letter, or ""
	aliases []string // further flags, and further paths (those have a dot)
	target  func(o *Options) any
	text    string     // the default, written as a person would; "" for none
	bounds  [2]float64 // of a number, both included; zeros for none
	values  []string   // the only ones of a string; nil for any
	inverse bool       // the flag takes away what the path gives
	secret  bool       // the value is never shown
	help    string     // "" keeps it out of --help
}

// sections are the groups of --help, by the first word of the path.
var sections = []struct{ prefix, title string }{
	{"config", "Configuration"},
	{"net", "Network"},
	{"security", "Security"},
	{"replication", "Replica set"},
	{"sharding", "Cluster"},
	{"storage", "Storage"},
	{"systemLog", "Log"},
	{"auditLog", "Audit log"},
	{"processManagement", "Process"},
	{"operationProfiling", "Profiler and slow operations"},
	{"setParameter", "Server parameters"},
	{"admin", "Admin HTTP server"},
	{"cosmos", "Azure Cosmos DB endpoint"},
	{"console", "Console"},
	{"telemetry", "Traces and metrics by OpenTelemetry"},
}

// The bounds of numbers; mongod has the same.
var (
	ports       = [2]float64{0, 65535}
	connections = [2]float64{5, 1_000_000}
	verbosity   = [2]float64{0, 5}
	commitMS    = [2]float64{1, 500}
	cacheGB     = [2]float64{0.05, 10_000} // mongod: 0.25; tests and small machines want less
	operationGB = [2]float64{0.25, 10_000}
	oplogMB     = [2]float64{0, 1 << 30}
	oplogHours  = [2]float64{0, 1 << 20}
	slowMS      = [2]float64{-1, 1<<31 - 1}
	share       = [2]float64{0, 1}
)

var table = []option{
	{path: "config", flag: "config", short: "f", target: func(o *Options) any { return &o.ConfigFile },
		help: "read options from this YAML file"},

	{path: "net.port", flag: "port", target: func(o *Options) any { return &o.Net.Port }, text: "27017", bounds: ports,
		help: "port to listen on; 0 picks a free one"},
	{path: "net.bindIp", flag: "bind_ip", aliases: []string{"bind-ip"}, target: func(o *Options) any { return &o.Net.BindIP }, text: "localhost",
		help: "addresses, host names or socket paths to listen on, separated by commas; * for all"},
	{path: "net.bindIpAll", flag: "bind_ip_all", aliases: []string{"bind-ip-all"}, target: func(o *Options) any { return &o.Net.BindIPAll },
		help: "listen on all addresses"},
	{path: "net.ipv6", flag: "ipv6", target: func(o *Options) any { return &o.Net.IPv6 },
		help: "listen on IPv6 addresses too where a host name has both"},
	{path: "net.maxIncomingConnections", flag: "maxConns", target: func(o *Options) any { return &o.Net.MaxConnections }, text: "65536", bounds: connections,
		help: "maximum number of connections; the limit on open files may lower it"},
	{path: "net.compression.compressors", flag: "networkMessageCompressors", target: func(o *Options) any { return &o.Net.Compressors }, text: "snappy,zstd,zlib",
		values: []string{"snappy", "zstd", "zlib", "noop", "disabled"},
		help:   "compressors to offer, separated by commas, or disabled"},
	{path: "net.listenBacklog", flag: "listenBacklog", target: func(o *Options) any { return &o.Net.ListenBacklog }, text: "0", bounds: [2]float64{0, 1 << 20},
		help: "accepted for compatibility; the system's limit is always used"},
	{path: "net.unixDomainSocket.enabled", flag: "nounixsocket", inverse: true, target: func(o *Options) any { return &o.Net.UnixSocket }, text: "true",
		help: "do not listen on a unix socket"},
	{path: "net.unixDomainSocket.pathPrefix", flag: "unixSocketPrefix", target: func(o *Options) any { return &o.Net.UnixSocketDir }, text: "/tmp",
		help: "directory of the unix socket mongodb-PORT.sock"},
	{path: "net.unixDomainSocket.filePermissions", flag: "filePermissions", target: func(o *Options) any { return (*mode)(&o.Net.UnixSocketMode) }, text: "0700",
		help: "permissions of the unix socket, octal"},

	{path: "net.tls.mode", flag: "tlsMode", target: func(o *Options) any { return &o.Net.TLS.Mode }, text: TLSDisabled, values: []string{TLSDisabled, TLSAllowed, TLSPreferred, TLSRequired},
		help: "TLS on the port: disabled; allowTLS: clients may use it; preferTLS: other servers of the set or cluster are asked with it, too; requireTLS: nothing else is answered"},
	{path: "net.tls.certificateKeyFile", flag: "tlsCertificateKeyFile", target: func(o *Options) any { return &o.Net.TLS.CertificateKeyFile },
		help: "PEM file with the server's certificate, those between it and its root, and its private key"},
	{path: "net.tls.certificateKeyFilePassword", flag: "tlsCertificateKeyFilePassword", target: func(o *Options) any { return &o.Net.TLS.CertificateKeyFilePassword }, secret: true,
		help: "password of that private key, where it is encrypted (PKCS #8)"},
	{path: "net.tls.CAFile", flag: "tlsCAFile", target: func(o *Options) any { return &o.Net.TLS.CAFile },
		help: "PEM file with the certificates of the authorities that sign those of clients and other servers"},
	{path: "net.tls.CRLFile", flag: "tlsCRLFile", target: func(o *Options) any { return &o.Net.TLS.CRLFile },
		help: "PEM file with lists of certificates that were revoked, signed by these authorities"},
	{path: "net.tls.clusterFile", flag: "tlsClusterFile", target: func(o *Options) any { return &o.Net.TLS.ClusterFile },
		help: "PEM file with the certificate and key that this server shows other servers; default: those for clients"},
	{path: "net.tls.clusterPassword", flag: "tlsClusterPassword", target: func(o *Options) any { return &o.Net.TLS.ClusterPassword }, secret: true,
		help: "password of the private key in that file"},
	{path: "net.tls.clusterCAFile", flag: "tlsClusterCAFile", target: func(o *Options) any { return &o.Net.TLS.ClusterCAFile },
		help: "PEM file with the authorities that sign the certificates of clients; default: those of net.tls.CAFile"},
	{path: "net.tls.allowConnectionsWithoutCertificates", flag: "tlsAllowConnectionsWithoutCertificates", target: func(o *Options) any { return &o.Net.TLS.AllowConnectionsWithoutCertificates },
		help: "let in clients that show no certificate"},
	{path: "net.tls.allowInvalidCertificates", flag: "tlsAllowInvalidCertificates", target: func(o *Options) any { return &o.Net.TLS.AllowInvalidCertificates },
		help: "encrypt, and check no certificate; for tests"},
	{path: "net.tls.allowInvalidHostnames", flag: "tlsAllowInvalidHostnames", target: func(o *Options) any { return &o.Net.TLS.AllowInvalidHostnames },
		help: "do not check that the certificates of other servers have their host names"},
	{path: "net.tls.disabledProtocols", flag: "tlsDisabledProtocols", target: func(o *Options) any { return &o.Net.TLS.DisabledProtocols }, text: "TLS1_0,TLS1_1", values: []string{"TLS1_0", "TLS1_1", "TLS1_2", "TLS1_3", "none"},
		help: "versions of TLS that are not spoken; none: all are"},
	{path: "net.tls.logVersions", flag: "tlsLogVersions", target: func(o *Options) any { return &o.Net.TLS.LogVersions }, values: []string{"TLS1_0", "TLS1_1", "TLS1_2", "TLS1_3"},
		help: "log connections that use one of these versions"},

	{path: "security.authorization", flag: "auth", target: func(o *Options) any { return (*enabling)(&o.Security.Authorization) }, text: "disabled",
		help: "require clients to authenticate, and allow what their roles grant"},
	{path: "security.keyFile", flag: "keyFile", target: func(o *Options) any { return &o.Security.KeyFile },
		help: "file with the key that all members of a replica set, and all parts of a cluster, share, 6 to 1024 base64 characters, or a YAML list of two, of which each is accepted; nobody without it is accepted as one of them. Turns on security.authorization"},
	{path: "security.clusterAuthMode", flag: "clusterAuthMode", target: func(o *Options) any { return &o.Security.ClusterAuth }, text: AuthKeyFile, values: []string{AuthKeyFile, AuthSendKeyFile, AuthSendX509, AuthX509},
		help: "how servers of a set or cluster know each other: by the key file, by their certificates (x509), or, for the way from one to the other, by both: sendKeyFile shows the key, sendX509 the certificate. x509 turns on security.authorization"},
	{path: "security.redactClientLogData", flag: "redactClientLogData", target: func(o *Options) any { return &o.Security.RedactLogs },
		help: "keep what clients give out of the log, but names of databases and collections: values, names of fields, messages of their errors"},
	{path: "security.enableEncryption", flag: "enableEncryption", target: func(o *Options) any { return &o.Security.Encryption },
		help: "encrypt every file of the data directory, which must be empty when that begins"},
	{path: "security.encryptionKeyFile", flag: "encryptionKeyFile", target: func(o *Options) any { return &o.Security.EncryptionKeyFile },
		help: "file with the master key of an encrypted data directory, 32 bytes in base64"},
	{path: "security.encryptionKeyCommand", flag: "encryptionKeyCommand", target: func(o *Options) any { return &o.Security.EncryptionKeyCommand },
		help: "program that has the master key instead: run with wrap or unwrap, it turns base64 on its standard input into base64 on its standard output, within 30 seconds"},
	{path: "security.encryptionCipherMode", flag: "encryptionCipherMode", target: func(o *Options) any { return &o.Security.EncryptionCipher }, text: "AES256-GCM", values: []string{"AES256-GCM"},
		help: "how the data directory is encrypted; there is no AES256-CBC, which would not tell what was changed"},
	{path: "security.javascriptEnabled", flag: "noscripting", inverse: true, target: func(o *Options) any { return &o.Security.JavaScript }, text: "false",
		help: "disable JavaScript from clients ($where, $function, $accumulator, mapReduce), which is the default; --noscripting=false enables it"},

	{path: "replication.replSetName", flag: "replSet", target: func(o *Options) any { return &o.Replication.Set },
		help: "be a member of the replica set of that name"},
	{path: "replication.initiate", flag: "initiate", target: func(o *Options) any { return &o.Replication.Initiate },
		help: "initiate the replica set with this member alone, if the data belongs to none yet; existing data is kept"},
	{path: "replication.advertise", flag: "advertise", target: func(o *Options) any { return &o.Replication.Advertise },
		help: "host:port by which clients and other members reach this server; default: the address it listens on"},
	{path: "replication.oplogSizeMB", flag: "oplogSize", target: func(o *Options) any { return &o.Replication.OplogSizeMB }, text: "0", bounds: oplogMB,
		help: "size in megabytes of the log that members catch up from; 0 is a twentieth of the free disk space, from 990 MB to 50 GB"},
	{path: "storage.oplogMinRetentionHours", flag: "oplogMinRetentionHours", target: func(o *Options) any { return &o.Replication.OplogMinimum }, text: "24", bounds: oplogHours,
		help: "hours that entries stay in that log, whatever its size; the default gives way to the size, and the log says so"},

	{path: "sharding.clusterRole", flag: "clusterRole", target: func(o *Options) any { return &o.Sharding.Role }, values: []string{ConfigServer, ShardServer},
		help: "be a config server (configsvr) or a shard (shardsvr) of a cluster; needs --replSet"},
	{path: "sharding.configsvr", flag: "configsvr", target: func(o *Options) any { return &o.Sharding.IsConfigServer },
		help: "the same as --clusterRole configsvr"},
	{path: "sharding.shardsvr", flag: "shardsvr", target: func(o *Options) any { return &o.Sharding.IsShardServer },
		help: "the same as --clusterRole shardsvr"},
	{path: "sharding.configDB", flag: "configdb", target: func(o *Options) any { return &o.Sharding.ConfigDB },
		help: "config servers of the cluster, set/host:port,host:port"},

	{path: "storage.dbPath", flag: "dbpath", target: func(o *Options) any { return &o.Storage.DBPath },
		help: "directory for the data; default: /data/db if it exists, else ./data"},
	{path: "storage.engine", flag: "storageEngine", target: func(o *Options) any { return &o.Storage.Engine }, text: "mayfly", values: []string{"mayfly", "wiredTiger"},
		help: "there is only one engine; wiredTiger is accepted as a name for it"},
	{path: "storage.journal.commitIntervalMs", flag: "journalCommitInterval", target: func(o *Options) any { return &o.Storage.JournalCommitIntervalMS }, text: "100", bounds: commitMS,
		help: "milliseconds until acknowledged writes are synced to disk"},
	{path: "storage.cacheSizeGB", flag: "cacheSizeGB", aliases: []string{"wiredTigerCacheSizeGB", "storage.wiredTiger.engineConfig.cacheSizeGB"},
		target: func(o *Options) any { return &o.Storage.CacheSizeGB }, bounds: cacheGB,
		help: "memory for the engine's cache; the default depends on the machine's memory"},

	{path: "systemLog.path", flag: "logpath", target: func(o *Options) any { return &o.Log.Path },
		help: "file to log to instead of standard output"},
	{path: "systemLog.destination", target: func(o *Options) any { return &o.Log.Destination }, values: []string{"file", "syslog"}},
	{path: "systemLog.logAppend", flag: "logappend", target: func(o *Options) any { return &o.Log.Append },
		help: "append to the log file instead of renaming the old one"},
	{path: "systemLog.logRotate", flag: "logRotate", target: func(o *Options) any { return &o.Log.Rotate }, text: "rename", values: []string{"rename", "reopen"},
		help: "what the command logRotate does with the file"},
	{path: "systemLog.quiet", flag: "quiet", target: func(o *Options) any { return &o.Log.Quiet },
		help: "leave out the lines about connections"},
	{path: "systemLog.verbosity", flag: "verbose", short: "v", target: func(o *Options) any { return (*level)(&o.Log.Verbosity) }, bounds: verbosity,
		help: "log more; -vvvvv logs most"},
	{path: "systemLog.timeStampFormat", flag: "timeStampFormat", target: func(o *Options) any { return &o.Log.TimeStampFormat }, text: "iso8601-local", values: []string{"iso8601-local", "iso8601-utc"},
		help: "format of times in the log"},

	{path: "auditLog.destination", flag: "auditDestination", target: func(o *Options) any { return &o.Audit.Destination }, values: []string{"file", "console", "syslog"},
		help: "keep an audit log, and where: in a file, on standard output or in the system's log; default: there is none"},
	{path: "auditLog.format", flag: "auditFormat", target: func(o *Options) any { return &o.Audit.Format }, text: "JSON", values: []string{"JSON", "BSON"},
		help: "form of the events in a file; all else takes JSON"},
	{path: "auditLog.path", flag: "auditPath", target: func(o *Options) any { return &o.Audit.Path },
		help: "file of the audit log"},
	{path: "auditLog.filter", flag: "auditFilter", target: func(o *Options) any { return &o.Audit.Filter },
		help: "query that events must match to be kept, in JSON"},

	{path: "processManagement.pidFilePath", flag: "pidfilepath", target: func(o *Options) any { return &o.Process.PIDFile },
		help: "file to write the process id to"},
	{path: "processManagement.operationMemoryGB", flag: "operationMemoryGB", target: func(o *Options) any { return &o.Process.OperationMemoryGB }, bounds: operationGB,
		help: "memory that all operations share: requests, sorts, groups, cursors, JavaScript; the default depends on the machine's memory"},
	{path: "processManagement.timeZoneInfo", flag: "timeZoneInfo", target: func(o *Options) any { return &o.Process.TimeZoneInfo },
		help: "accepted for compatibility; time zones are built into the binary"},

	{path: "operationProfiling.mode", flag: "profile", target: func(o *Options) any { return (*profileLevel)(&o.Profile.Level) }, text: "off",
		help: "off (or 0), slowOp (1) or all (2)"},
	{path: "operationProfiling.slowOpThresholdMs", flag: "slowms", target: func(o *Options) any { return &o.Profile.SlowMS }, text: "100", bounds: slowMS,
		help: "operations that take longer than this, in milliseconds, are slow"},
	{path: "operationProfiling.slowOpSampleRate", flag: "slowOpSampleRate", target: func(o *Options) any { return &o.Profile.SampleRate }, text: "1.0", bounds: share,
		help: "share of slow operations that are logged and profiled"},

	{path: "setParameter", flag: "setParameter", target: func(o *Options) any { return &o.SetParameters },
		help: "set a server parameter, name=value; may be repeated"},

	{path: "admin.port", flag: "adminPort", target: func(o *Options) any { return &o.Admin.Port }, text: "0", bounds: ports,
		help: "port for /metrics, /healthz and /readyz; 0 is off"},
	{path: "admin.bindIp", flag: "adminBindIp", target: func(o *Options) any { return &o.Admin.BindIP }, text: "localhost",
		help: "addresses for the admin port, separated by commas"},
	{path: "admin.tls", flag: "adminTls", target: func(o *Options) any { return &o.Admin.TLS },
		help: "speak nothing but TLS on the admin port, with the certificates and authorities of net.tls"},
	{path: "admin.access", flag: "adminAccess", target: func(o *Options) any { return &o.Admin.Access }, values: []string{AdminOpen, AdminUser, AdminToken, AdminCertificate},
		help: "what lets in to the admin port, any of a list: user: a user of admin and its password (serverStatus for /metrics, setParameter for /debug/pprof); token: admin.tokenFile's; certificate: one signed by the authorities; open: nothing is asked. Default: token if there is one, else user with access control, else open. /healthz and /readyz are open always"},
	{path: "admin.tokenFile", flag: "adminTokenFile", target: func(o *Options) any { return &o.Admin.TokenFile },
		help: "file with the token that lets in to the admin port (Authorization: Bearer), at least 16 characters; nobody else may read it"},
	{path: "admin.pprof", flag: "adminPprof", target: func(o *Options) any { return &o.Admin.Profiles },
		help: "answer /debug/pprof on the admin port, too: profiles show what is in memory"},

	{path: "cosmos.enabled", flag: "cosmos", target: func(o *Options) any { return &o.Cosmos.Enabled },
		help: "answer the REST protocol of Azure Cosmos DB's NoSQL API too"},
	{path: "cosmos.port", flag: "cosmosPort", target: func(o *Options) any { return &o.Cosmos.Port }, text: "8081", bounds: ports,
		help: "port of the Cosmos DB endpoint"},
	{path: "cosmos.computePort", flag: "cosmosComputePort", target: func(o *Options) any { return &o.Cosmos.ComputePort }, text: "0", bounds: ports,
		help: "port that answers as the service's compute gateway, for all ids in paths; 0 is off"},
	{path: "cosmos.bindIp", flag: "cosmosBindIp", target: func(o *Options) any { return &o.Cosmos.BindIP }, text: "localhost",
		help: "addresses for the Cosmos DB endpoint, separated by commas"},
	{path: "cosmos.tls", flag: "cosmosTls", target: func(o *Options) any { return &o.Cosmos.TLS }, text: "on", values: []string{"on", "off"},
		help: "https with a certificate made in the data directory, or plain http"},
	{path: "cosmos.tlsDirectory", flag: "cosmosTlsDirectory", target: func(o *Options) any { return &o.Cosmos.TLSDirectory },
		help: "directory of the certificate (cert.pem, key.pem), which is made where there is none; default: cosmos in the data directory. A router has none, and needs this for https"},
	{path: "cosmos.key", flag: "cosmosKey", target: func(o *Options) any { return &o.Cosmos.Key }, secret: true,
		help: "account key, base64; default: the well-known key of the vendor's emulator. Every user can see a command line, so prefer a file"},
	{path: "cosmos.keyFile", flag: "cosmosKeyFile", target: func(o *Options) any { return &o.Cosmos.KeyFile },
		help: "file with the account key"},
	{path: "cosmos.allowWellKnownKey", flag: "cosmosAllowWellKnownKey", target: func(o *Options) any { return &o.Cosmos.AllowWellKnownKey },
		help: "accept the emulator's key, which everybody knows, at addresses other than loopback"},
	{path: "cosmos.endpoint", flag: "cosmosEndpoint", target: func(o *Options) any { return &o.Cosmos.Endpoint },
		help: "URL that the account document advertises; default: the one that the request was sent to"},
	{path: "cosmos.region", flag: "cosmosRegion", target: func(o *Options) any { return &o.Cosmos.Region }, text: "South Central US",
		help: "name of the region in the account document"},
	{path: "cosmos.consistency", flag: "cosmosConsistency", target: func(o *Options) any { return &o.Cosmos.Consistency }, text: "Session",
		values: []string{"Strong", "BoundedStaleness", "Session", "ConsistentPrefix", "Eventual"},
		help:   "default consistency level in the account document; every read is strong"},
	{path: "cosmos.crossPartition", flag: "cosmosCrossPartition", target: func(o *Options) any { return &o.Cosmos.CrossPartition },
		help: "answer every query across partitions, which the service leaves to the SDK"},

	{path: "console.enabled", flag: "console", target: func(o *Options) any { return &o.Console.Enabled },
		help: "serve the console, a page for browsers"},
	{path: "console.port", flag: "consolePort", target: func(o *Options) any { return &o.Console.Port }, text: "27080", bounds: ports,
		help: "port of the console"},
	{path: "console.bindIp", flag: "consoleBindIp", target: func(o *Options) any { return &o.Console.BindIP }, text: "localhost",
		help: "addresses for the console, separated by commas; others than loopback need console.tls and access control"},
	{path: "console.tls", flag: "consoleTls", target: func(o *Options) any { return &o.Console.TLS },
		help: "speak nothing but TLS on the console's port, with the certificates of net.tls"},

	{path: "telemetry.otlpEndpoint", flag: "otlpEndpoint", target: func(o *Options) any { return &o.Telemetry.Endpoint },
		help: "URL of an OpenTelemetry collector that takes OTLP over HTTP, http://localhost:4318, to which traces and metrics are sent; default: nothing is"},
	{path: "telemetry.otlpSampleRate", flag: "otlpSampleRate", target: func(o *Options) any { return &o.Telemetry.SampleRate }, text: "0.01", bounds: share,
		help: "share of operations that are traced, of those that are not a part of a trace already"},
	{path: "telemetry.otlpServiceName", flag: "otlpServiceName", target: func(o *Options) any { return &o.Telemetry.Service }, text: "mayfly",
		help: "name of the service in traces and metrics"},
}
