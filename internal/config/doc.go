// Package config turns what a person asked for, on the command line, in the
// environment and in a file, into Options. One table (table.go) says for every
// option its name in each of the three, its type, its bounds, its default and
// its help; everything else here reads that table.
//
// Names are mongod's: flags (--port), and paths in the YAML file (net.port),
// of which the environment variable follows: MAYFLY_ and the words of the path
// (MAYFLY_NET_PORT, MAYFLY_STORAGE_DB_PATH). The variables are not named after
// the flags because Kubernetes itself sets MAYFLY_PORT in every pod beside a
// service called mayfly.
//
// A flag wins over the environment, the environment over the file, the file
// over the default. Everything that is wrong anywhere is reported at once,
// each with its place, also where a stronger source would have hidden it.
//
// The data directory is /data/db, as mongod's, where that exists (containers
// and scripts made for mongod have it), else ./data, which needs no rights
// beyond those in the directory one stands in. The second is made when it is
// missing; another directory is made only where its parent exists, so that a
// mistyped path or a missing mount does not become an empty database.
//
// Exit codes of the process, as mongod's where it has them:
//
//	  0  stopped as asked (ExitClean)
//	  1  mayfly verify and mayfly repair: something is damaged, or lost (ExitDamaged)
//	  2  wrong options or configuration (ExitBadOptions)
//	 14  abandoned: the storage can no longer be trusted, operations did not
//	     end, or a second signal came while stopping (ExitAbrupt)
//	 48  an address cannot be listened on: in use, no right, no such address
//	     (ExitNetError)
//	100  could not start for another reason: the data directory is missing, not
//	     ours to write, of an unknown format, or in use by another process
//	     (mongod says DBPathInUse and exits with 100 too) (ExitUncaught)
//
// Start reading at table.go.
package config
