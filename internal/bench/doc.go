// Package bench measures a Mayfly server as its clients see it: the official
// Go driver over loopback against a server process, row by row, and beside
// each row, in the same run, PostgreSQL with a jsonb table and the same
// indexes, Pebble alone with the same keys, an exchange of as many bytes over
// the same sockets that does nothing (the wire), and the same driver with a
// server that has every answer ready (hollow.go, hollowcosmos.go): no server can be
// faster.
//
// A row (row.go) is one kind of operation. A system (system.go) is what can do
// it; each client of a system is a worker. measure.go runs workers side by side
// and keeps every latency; the processor time of a row is the growth of that
// of the system's processes (process.go), so it does not depend on who else
// uses the machine. expiry.go is the row that removes what is due, live.go the
// same under load, shapes.go the same for three kinds of collections; points.go
// has finds among few and many documents. question.go has the pipelines of analysis with
// the same in SQL, replica.go replica sets beside a bare raft group (prototype.go), initialsync.go how a member joins
// one and replicaexpiry.go what expires on one, both beside clients at a steady rate (steadyload.go), reading.go time series, and the Cosmos DB endpoint is asked
// by a program of its own (e2e/cosmos/sdk/load).
//
// Start reading at run.go, then row.go.
package bench
