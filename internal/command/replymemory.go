package command

import (
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/memory"
)

const (
	// replySize is the initial capacity of a reply.
	replySize = 4 << 10
	// replyGrowth is the number of copies of a reply in memory while it grows.
	replyGrowth = 2
	// largeText is the size of a filter, a statement or a pipeline, in bytes, from which
	// on its parsed form is taken from the budget, and parsedCopies the factor by which
	// that is larger: a number in a list becomes a value of several words.
	largeText    = 16 << 10
	parsedCopies = 8
	// maxKeptReply bounds the memory that is kept for the next reply.
	maxKeptReply = 1 << 20
)

// reply is an unfinished reply, with memory that is reused.
type reply struct {
	builder bson.Builder
	memory  []byte
	account memory.Account // for large replies
	held    memory.Holding
	parsed  memory.Holding // the parsed request

	arguments argumentMemory
}

var replies = sync.Pool{New: func() any { return &reply{memory: make([]byte, 0, replySize)} }}

func newReply(b *memory.Budget) *reply {
	r := replies.Get().(*reply)
	if b != nil {
		r.account.Open(b)
		r.held, r.parsed = r.account.Hold(nil), r.account.Hold(nil)
	}
	r.builder.Reset(r.memory)
	return r
}

// release takes back the memory, from which body may have been moved.
func (r *reply) release(body bson.Doc) {
	r.account.Close()
	if cap(body) > cap(r.memory) {
		r.memory = body
	}
	if cap(r.memory) <= maxKeptReply {
		r.memory = r.memory[:0]
		replies.Put(r)
	}
}
