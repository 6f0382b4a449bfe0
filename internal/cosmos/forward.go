package cosmos

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// A router sends requests on to where they are run: those on definitions to the primary of
// the config servers (onconfig.go), those on one partition to the shard that owns it
// (onshard.go). In between they are commands,
//
//	{…, method, path, headers: {name: value}, body: binary, compute: bool, byRID: bool}
//
// and replies {status: int, headers: {name: value}, body: binary}. The router has checked the
// signature. (docs/rfcs/0028-cosmos-on-a-cluster.md)

// requestFields are the fields of such a command beside its value.
func requestFields() []*command.Field {
	return []*command.Field{
		command.String("method").Required(), command.String("path").Required(), command.Object("headers").Required(),
		command.OneOf("body", bson.TypeBinary), command.Bool("compute"), command.Bool("byRID"),
	}
}

// clusterRequest is what a part of a cluster knows about a request of a router.
type clusterRequest struct {
	container *container // on a shard
	within    bson.Doc   // on a shard: a filter for the range of a change feed; nil for all
	tokenKey  []byte     // on a config server: what signs resource tokens
}

// appendRequest appends the request's fields to a command. path is escaped.
func (r *request) appendRequest(b *bson.Builder, path string, body []byte) {
	b.String("method", r.Method).String("path", path).OpenDoc("headers")
	for name, v := range r.Header {
		if len(v) > 0 && forwarded(name) {
			b.String(name, v[0])
		}
	}
	b.Close().Binary("body", 0, body)
	if r.compute {
		b.Bool("compute", true)
	}
	if r.path.byRID {
		b.Bool("byRID", true)
	}
}

// forwarded reports whether a header concerns who runs the request.
func forwarded(name string) bool {
	switch name {
	case "If-Match", "If-None-Match", "If-Modified-Since", "A-Im", "Prefer", "Content-Type":
		return true
	}
	return strings.HasPrefix(name, "X-Ms-") && name != "X-Ms-Date"
}

// memoryBody is a body in memory.
type memoryBody struct {
	io.Reader
	all []byte
}

// Close implements io.Closer.
func (memoryBody) Close() error { return nil }

// Bytes is what request.body asks for.
func (b memoryBody) Bytes() []byte { return b.all }

// answer is a response in memory.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { a.body = append(a.body, b...); return len(b), nil }

// serveForwarded runs a request that a router has sent as op, and replies.
func (s *Server) serveForwarded(ctx context.Context, op *command.Op, prepare func(*request) error) error {
	args := &op.Args
	header := http.Header{}
	for name, v := range args.Doc("headers").All() {
		if v.Type == bson.TypeString {
			header[name] = []string{v.Str()}
		}
	}
	var body []byte
	if args.Has("body") {
		_, body = args.Value("body").Binary()
	}
	path := args.Str("path")
	hr := &http.Request{
		Method: args.Str("method"), Header: header, URL: &url.URL{Path: path}, RequestURI: path,
		ContentLength: int64(len(body)), Body: memoryBody{bytes.NewReader(body), body},
	}
	w := &answer{status: http.StatusOK, header: http.Header{}}
	r := &request{Request: hr.WithContext(ctx), s: s, w: w, charge: 1, now: time.Now(), compute: args.Bool("compute"), ctx: ctx, op: op, cluster: &clusterRequest{}}
	defer r.begin(s.requests.Add(1))()
	if err := r.runForwarded(prepare); err != nil {
		if ofServers(err) {
			return err
		}
		r.fail(err)
	}
	op.Reply.Int32("status", int32(w.status)).OpenDoc("headers")
	for name, v := range w.header {
		op.Reply.String(name, v[0])
	}
	op.Reply.Close().Binary("body", 0, w.body)
	return nil
}

func (r *request) runForwarded(prepare func(*request) error) (err error) {
	if r.path, err = parsePath(r.RequestURI); err != nil {
		return err
	}
	r.s.registry.resolve(&r.path)
	r.path.byRID = r.path.byRID || r.op.Args.Bool("byRID")
	r.item, r.keyText = r.path.item, r.header("X-Ms-Documentdb-Partitionkey")
	if err := prepare(r); err != nil {
		return err
	}
	if r.path.byRID && r.path.kind == kindItem {
		if err := r.resolveItem(); err != nil {
			return err
		}
	}
	return r.route().answer(r)
}

// ofServers reports whether an error is about the servers of the cluster and not about the
// request: the router deals with it.
func ofServers(err error) bool {
	var own *Error
	if errors.As(err, &own) {
		return false
	}
	switch mongoerr.From(err).Code {
	case mongoerr.StaleConfig, mongoerr.StaleDbVersion, mongoerr.StaleEpoch, mongoerr.NotWritablePrimary, mongoerr.PrimarySteppedDown,
		mongoerr.InterruptedDueToReplStateChange, mongoerr.InterruptedAtShutdown, mongoerr.ShutdownInProgress, mongoerr.MaxTimeMSExpired, mongoerr.Interrupted,
		mongoerr.ClientDisconnect, mongoerr.HostUnreachable, mongoerr.FailedToSatisfyReadPreference, mongoerr.WriteConcernFailed:
		return true
	}
	return false
}

// pass sends the reply of the server that has run the request. Errors: 503 if a write is not
// known to be on a majority.
func (r *request) pass(reply bson.Doc) error {
	if unmet := reply.Lookup("writeConcernError"); unmet.Type == bson.TypeDocument {
		return newError(http.StatusServiceUnavailable, "The write is not known to be on a majority of its servers: %s", unmet.Doc())
	}
	h := r.w.Header()
	for name, v := range reply.Lookup("headers").Doc().All() {
		h[name] = []string{v.Str()}
	}
	h["X-Ms-Activity-Id"] = []string{r.activity}
	_, body := reply.Lookup("body").Binary()
	r.op.ReplyBytes = len(body)
	r.passed = int(bson.ClampToInt64(reply.Lookup("status")))
	r.w.WriteHeader(r.passed)
	if r.Method != http.MethodHead {
		_, _ = r.w.Write(body) // a disconnected client needs no response
	}
	return nil
}

// majority is what a router asks for with every write.
var majority = new(bson.Builder).String("w", "majority").Int64("wtimeout", majorityTime.Milliseconds()).Finish()

// majorityTime is how long a write waits for a majority. It stays after that, too.
const majorityTime = 30 * time.Second
