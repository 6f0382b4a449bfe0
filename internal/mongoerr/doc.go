// Package mongoerr is the server's error as a Go type: code, code name,
// message, labels and further information, as a client reads them in a reply.
//
// An Error is the user's to mend. What the environment does to us (a full
// disk) travels as an ordinary wrapped error and becomes code 1 or 8 at the
// door; our own bugs go to package invariant.
package mongoerr
