package command

import (
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
)

const (
	// replySize is how much room a reply gets before it has to grow.
	replySize = 4 << 10
	// maxKeptReply bounds the memory that is kept for the next reply.
	maxKeptReply = 1 << 20
)

// reply is a reply in the making, with memory that replies hand on.
type reply struct {
	builder bson.Builder
	memory  []byte
}

var replies = sync.Pool{New: func() any { return &reply{memory: make([]byte, 0, replySize)} }}

func newReply() *reply {
	r := replies.Get().(*reply)
	r.builder.Reset(r.memory)
	return r
}

// release takes back the memory, which body may have outgrown.
func (r *reply) release(body bson.Doc) {
	if cap(body) > cap(r.memory) {
		r.memory = body
	}
	if cap(r.memory) <= maxKeptReply {
		r.memory = r.memory[:0]
		replies.Put(r)
	}
}
