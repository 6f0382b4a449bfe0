package bench

import (
	"context"
	"strings"
	"time"
)

// system is a store under measurement.
type system interface {
	// reset leaves an empty collection, which has its indexes before its data.
	reset(ctx context.Context, l layout) error
	// worker makes one client.
	worker(ctx context.Context) (worker, error)
	// cpu is the processor time that the system's processes have used so far.
	cpu() (time.Duration, error)
	close() error
}

// layout says what a collection is like.
type layout struct {
	// Due adds an index by which documents expire to the ones on _id and k.
	Due bool
	// Hashed adds an index on the hash of _id, on the server.
	Hashed bool
	// Archive has what expires be written to files first.
	Archive bool
	// Immediate hides a document from the instant at which it is due, if the
	// system can.
	Immediate bool
	// Bytes is the size of a document, 0 for documentBytes.
	Bytes int
	// Mixed is documents that do not compress, on the server.
	Mixed bool
}

// padding is what a document has beside its fields.
func (l layout) padding() string {
	if l.Bytes == 0 {
		return padding
	}
	return strings.Repeat("x", l.Bytes-fixedBytes)
}

// worker is one client; one goroutine uses it. A read returns an error if it
// finds other than it must.
type worker interface {
	insert(ctx context.Context, id int64, journaled bool) error
	// insertMany adds the documents [first, first+n), which expire at due.
	insertMany(ctx context.Context, first int64, n int, due int64) error
	find(ctx context.Context, id int64) error
	findByKey(ctx context.Context, key int64) error
	// scan reads the n documents from id on.
	scan(ctx context.Context, id int64, n int) error
	// scanByKey reads n documents in the order of k, from key on.
	scanByKey(ctx context.Context, key int64, n int) error
	increment(ctx context.Context, id int64, journaled bool) error
	remove(ctx context.Context, id int64) error
	close() error
}

// expirer is a system that can remove what is due.
type expirer interface {
	system
	// expire removes every document whose instant of expiry has passed and
	// returns when all are gone. It calls progress with the count from time to
	// time; total is how many there are.
	expire(ctx context.Context, total int64, progress func(int64)) error
}
