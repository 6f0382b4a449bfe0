// Package bench measures a Mayfly server as its clients see it: the official Go
// driver over loopback against a server process, row by row. For comparison each
// row also runs, in the same run, on PostgreSQL with a jsonb table and the same
// indexes, on plain Pebble with the same keys, as an exchange of as many bytes over
// the same sockets that does nothing (the wire), and with the same driver against a
// server that has every answer ready (hollow.go, hollowcosmos.go): no server can be
// faster.
//
// A row (row.go) is one kind of operation. A system (system.go) can run it; each client of
// a system is a worker. measure.go runs workers concurrently and keeps every latency; the
// processor time of a row is the growth of that of the system's processes (process.go), so
// it does not depend on who else uses the machine. expiry.go is the row that removes what
// is due, live.go the same under load, shapes.go the same for three kinds of collections;
// points.go has finds among few and many documents. question.go has the pipelines of
// analysis with the same in SQL, replica.go replica sets next to a bare raft group
// (prototype.go), initialsync.go how a member joins one and replicaexpiry.go what expires
// on one, both while clients work at a steady rate (steadyload.go), operate.go what backups,
// TLS, encryption and audit cost, size.go the disk and memory that documents take, transactions.go has
// transactions of many documents, sharded.go a cluster
// (cluster.go) next to PostgreSQL over postgres_fdw (foreign.go), reading.go time series, and
// the Cosmos DB endpoint is asked by a program of its own (e2e/cosmos/sdk/load).
//
// Start reading at run.go, then row.go.
package bench
