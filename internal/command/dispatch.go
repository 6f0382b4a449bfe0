package command

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
)

// Dispatcher turns requests into responses. Its parts are shared by the
// handlers through Op.Dispatcher.
type Dispatcher struct {
	Registry *Registry
	Params   *Params
	Cursors  *Cursors
}

// Dispatch runs one request to its end. It does not fail: errors are replies.
func (d *Dispatcher) Dispatch(ctx context.Context, req *Request) Response {
	return Response{Body: bson.Empty}
}
