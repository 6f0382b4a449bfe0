package config

// refusal is an option that mongod has and this server has not. The values in
// harmless ask for what is the case anyway and are taken.
type refusal struct {
	path     string // in the file; a trailing dot means everything below
	flags    []string
	bare     bool // the flags take no value
	harmless []string
	why      string
}

var refused = []refusal{
	{path: "processManagement.fork", flags: []string{"fork"}, bare: true, harmless: []string{"false"},
		why: "the server stays in the foreground; let systemd, a container or nohup put it into the background"},
	{path: "replication.enableMajorityReadConcern", flags: []string{"enableMajorityReadConcern"}, bare: true, harmless: []string{"true"}, why: "what a member reads is committed by a majority"},
	{path: "sharding.", why: "it is not offered"},
	{path: "security.noauth", flags: []string{"noauth"}, bare: true, harmless: []string{"true"}, why: "access control is off unless --auth says otherwise"},
	{path: "security.noscripting", harmless: []string{"true"}, why: "security.javascriptEnabled says it"},
	{path: "security.kmip.", flags: []string{"kmipServerName", "kmipPort", "kmipKeyIdentifier", "kmipClientCertificateFile", "kmipServerCAFile"}, why: "there is no KMIP client: security.encryptionKeyCommand runs one"},
	{path: "security.kmip.rotateMasterKey", flags: []string{"kmipRotateMasterKey"}, bare: true, why: "mayfly rotatekey gives a data directory another master key"},
	{path: "security.", why: "it is not offered"},
	{path: "net.tls.FIPSMode", flags: []string{"tlsFIPSMode"}, bare: true, harmless: []string{"false"}, why: "FIPS mode is not offered"},
	{path: "net.tls.certificateSelector", flags: []string{"tlsCertificateSelector"}, why: "certificates come from files"},
	{path: "net.tls.clusterCertificateSelector", flags: []string{"tlsClusterCertificateSelector"}, why: "certificates come from files"},
	{path: "net.ssl.mode", flags: []string{"sslMode"}, harmless: []string{"disabled"}, why: "net.tls.mode says it"},
	{path: "net.ssl.", flags: []string{"sslPEMKeyFile", "sslCAFile"}, why: "the options of net.tls say it"},
	{path: "storage.directoryPerDB", flags: []string{"directoryperdb"}, bare: true, harmless: []string{"false"}, why: "all databases share one store"},
	{path: "storage.syncPeriodSecs", flags: []string{"syncdelay"}, why: "the engine writes checkpoints by itself"},
	{path: "storage.journal.enabled", flags: []string{"journal", "nojournal"}, bare: true, harmless: []string{"true"}, why: "the journal is always on"},
	{path: "storage.wiredTiger.", flags: []string{"wiredTigerJournalCompressor", "wiredTigerCollectionBlockCompressor", "wiredTigerIndexPrefixCompression", "wiredTigerDirectoryForIndexes"}, why: "the engine is not WiredTiger"},
	{path: "storage.inMemory.", flags: []string{"inMemorySizeGB"}, why: "there is no in-memory engine"},
	{path: "storage.", flags: []string{"repair", "upgrade", "restore"}, bare: true, why: "it is not offered"},
	{path: "systemLog.syslogFacility", flags: []string{"syslogFacility"}, why: "logs go to standard output or a file"},
	{path: "systemLog.syslog", flags: []string{"syslog"}, bare: true, why: "logs go to standard output or a file"},
	{path: "systemLog.traceAllExceptions", flags: []string{"traceExceptions"}, bare: true, harmless: []string{"false"}, why: "it is not offered"},
	{path: "operationProfiling.filter", why: "a profile filter is set by the profile command"},
	{path: "auditLog.", why: "it is not offered: the audit log is configured when the server starts"},
	{path: "cloud.", why: "cloud monitoring is not offered"},
	{path: "snmp.", why: "SNMP is not offered"},
	{path: "net.serviceExecutor", flags: []string{"serviceExecutor"}, harmless: []string{"synchronous"}, why: "there is one way to run connections"},
	{path: "net.proxyPort", flags: []string{"proxyPort"}, why: "the proxy protocol is not offered"},
	{path: "processManagement.shutdown", flags: []string{"shutdown"}, bare: true, why: "send SIGTERM to the process, or db.shutdownServer()"},
	{path: "processManagement.windowsService.", flags: []string{"install", "remove"}, bare: true, why: "there is no Windows service"},
	{path: "config.expand", flags: []string{"configExpand"}, harmless: []string{"none"}, why: "configuration files are not expanded"},
}
