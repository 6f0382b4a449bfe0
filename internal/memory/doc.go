// Package memory is the budget that all operations of the process share: what
// requests, sorts, groups, joins, cursors and JavaScript hold in memory is
// taken from it in chunks, and given back when the operation, the cursor or the
// request ends.
//
// Units are bytes. A Budget (budget.go) has two pools: one for requests that
// are being read and run, one for everything that operations hold. An Account
// (account.go) is what one operation or cursor has taken; its Close gives
// everything back, in one place. A Holding is what one stage of it holds: it
// counts without a lock and goes to the budget once per chunk. A Request
// (request.go) is the memory of one request of a client.
//
// Where no memory is left:
//
//   - an operation that holds nothing yet waits: for maxWait, and no longer
//     than it may run;
//   - an operation that holds something never waits: it spills, uses less, or
//     fails with ExceededMemoryLimit (146).
//
// So no operation waits for one that waits, and there is no deadlock. Requests
// grow while they arrive, and would all wait for each other half-read; one at a
// time may exceed the pool, by an amount that the pool keeps free for it.
//
// An account without a Budget, or with a nil one, is unlimited.
package memory
