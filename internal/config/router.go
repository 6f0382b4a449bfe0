package config

import "strings"

// exclusion keeps an option from one of the two commands that take options.
type exclusion struct {
	path string // in the file; a trailing dot means everything below
	why  string // the error text for the user
}

// notOfRouter are the options that would change nothing in a router.
var notOfRouter = []exclusion{
	{"replication.", "a router is a member of no replica set"},
	{"sharding.clusterRole", "a router is neither a config server nor a shard"},
	{"sharding.configsvr", "a router is neither a config server nor a shard"},
	{"sharding.shardsvr", "a router is neither a config server nor a shard"},
	{"security.enableEncryption", "a router has no data"},
	{"security.encryptionKeyFile", "a router has no data"},
	{"security.encryptionKeyCommand", "a router has no data"},
	{"security.encryptionCipherMode", "a router has no data"},
	{"storage.", "a router has no data"},
	{"operationProfiling.mode", "a router has no profiler"},
}

// notOfServer are the options that only a router takes.
var notOfServer = []exclusion{{"sharding.configDB", "is an option of mayfly router"}}

// excluded returns why a router, or a server that is none, does not take the option;
// "" if it does.
func (p *option) excluded(router bool) string {
	exclusions := notOfServer
	if router {
		exclusions = notOfRouter
	}
	for _, e := range exclusions {
		if p.path == e.path || strings.HasSuffix(e.path, ".") && strings.HasPrefix(p.path, e.path) {
			return e.why
		}
	}
	return ""
}

// router checks that the options of a router are complete.
func (l *loader) router() {
	if l.options.Sharding.ConfigDB == "" {
		l.fail("sharding.configDB", "a router needs --configdb set/host:port,host:port")
	}
	if o := l.options.Security; o.Authorization && o.KeyFile == "" && o.ClusterAuth != AuthX509 {
		// The other servers of the cluster would not know it from anybody.
		l.fail("security.authorization", "a router needs --keyFile, which turns access control on")
	}
	if o := l.options.Cosmos; o.Enabled && o.TLS == "on" && o.TLSDirectory == "" {
		l.fail("cosmos.tlsDirectory", "a router has no data directory to keep a certificate in: it needs --cosmosTlsDirectory, or --cosmosTls off")
	}
}
