package command

import (
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Request is one command as a front end hands it over. Body and the documents
// of Sequences have passed bson.Validate; they must not be changed afterwards.
type Request struct {
	Client *Client
	// DB overrides the body's $db, for front ends that know it otherwise.
	DB        string
	Body      bson.Doc
	Sequences []Sequence
	// Start is when the front end began with it; the zero Time for now.
	Start time.Time
	// ExhaustAllowed says that the client takes several replies to this request.
	ExhaustAllowed bool
	// Legacy says that the request came as OP_QUERY, which only hello may.
	Legacy bool
}

// Sequence is a section of documents in addition to the body (OP_MSG kind 1), to be
// read as if it were the array named ID of the body.
type Sequence struct {
	ID   string
	Docs []bson.Doc
}

// Response is the reply to a Request.
type Response struct {
	// Body is the whole reply, "ok" included.
	Body bson.Doc
	// Next is the body of the request that the front end is to dispatch next, as
	// if the client had sent it, after it has sent Body marked moreToCome; nil for
	// an ordinary reply. Only where the request said ExhaustAllowed.
	Next bson.Doc
	// Close asks the front end to close the connection after Body is sent, or at
	// once where Body is nil.
	Close bool
	// Took is how long it took since the request's start.
	Took time.Duration

	reply *reply // whose memory Body is in
}

// Release gives Body's memory back for another reply. A front end that calls it
// must not use Body afterwards.
func (r *Response) Release() {
	if r.reply != nil {
		r.reply.release(r.Body)
		r.Body, r.reply = nil, nil
	}
}
