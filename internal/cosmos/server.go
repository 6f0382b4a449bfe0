package cosmos

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/nosql"
	"github.com/mayflydb/mayfly/internal/repl"
)

// WellKnownKey is the key of the vendor's emulator, which its SDKs' tests use.
const WellKnownKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// Options is what a Server works with.
type Options struct {
	// Catalog and Exec are nil where the endpoint is that of a router.
	Catalog *catalog.Catalog
	Exec    *exec.Executor
	// Member is the process as a member of a replica set; nil on a standalone, and in a cluster.
	Member *repl.Member
	// Memory is the memory budget of all operations of a router; nil for none. Elsewhere it is
	// that of Exec.
	Memory *memory.Budget
	// Cluster is what a router reaches; nil for any other server.
	Cluster Cluster
	// Dispatcher runs the requests.
	Dispatcher *command.Dispatcher
	Log        *slog.Logger
	// Key is the account's key, base64.
	Key string
	// Endpoint is the URL that the account document advertises; "" for the one
	// that the request came to.
	Endpoint string
	// Region and Consistency are shown in the account document.
	Region, Consistency string
	// CrossPartition answers queries across partitions whole, which the service's
	// gateway refuses and leaves to the SDK.
	CrossPartition bool
}

// Server answers the REST protocol. Safe for use by many goroutines.
type Server struct {
	o        Options
	signers  sync.Pool // of *signer: HMACs with the account's key
	tokenKey []byte    // signs resource tokens
	registry *registry
	keeper   keeper
	clock    *catalog.Clock
	known    definitions // on a router
	shard    *Shard      // nil unless it is a shard
	held     shardContainers
	activity string // the prefix of all activity ids
	requests atomic.Uint64
	wanted   chan wantedIndex
	results  resultCache
	dated    atomic.Pointer[requestDate]
}

// New makes a Server over a catalog and reads the definitions in it.
func New(ctx context.Context, o Options) (*Server, error) {
	key, err := base64.StdEncoding.DecodeString(o.Key)
	if err != nil {
		return nil, fmt.Errorf("the Cosmos DB account key is not base64: %w", err)
	}
	s, err := newServer(o, key)
	if err != nil {
		return nil, err
	}
	if o.Cluster != nil {
		return s, nil
	}
	s.use(local{s})
	s.o.Catalog.OnStepUp(s.stepUp)
	return s, s.load(ctx, o.Member == nil)
}

// newServer makes a Server that has read no definitions.
func newServer(o Options, key []byte) (*Server, error) {
	s := &Server{o: o, registry: newRegistry(o.Catalog), wanted: make(chan wantedIndex, maxWantedIndexes), clock: o.Dispatcher.Wall}
	if o.Catalog != nil {
		s.clock = o.Catalog.Clock
	}
	s.results.open(s.memory())
	s.signers.New = func() any { return &signer{Hash: hmac.New(sha256.New, key)} }
	s.tokenKey = s.proofWith(tokenPurpose)
	var b [6]byte
	rand.Read(b[:])
	s.activity = fmt.Sprintf("%x-%x-4000-8000-", b[:4], b[4:])
	return s, nil
}

// memory is the memory budget of all operations; nil for none.
func (s *Server) memory() *memory.Budget {
	if s.o.Exec != nil {
		return s.o.Exec.Memory
	}
	return s.o.Memory
}

// request is a request that is being served.
type request struct {
	*http.Request
	s          *Server
	w          http.ResponseWriter
	path       path
	activity   string
	charge     float64
	lsn        int64
	now        time.Time
	op         *command.Op
	own        command.Op      // what op is, unless it is a command of a cluster
	ctx        context.Context // the operation's
	answers    func(*request) error
	keyText    string                   // the unparsed partition key of the header
	item       string                   // the id of the item that the path names
	asked      atomic.Pointer[bson.Doc] // the body of a query
	expiryTime int64                    // the second by which items are expired
	written    int64                    // the second of what the request writes
	compute    bool                     // the request was sent to the compute gateway
	// partition is the partition key that the request's token is for, or Missing.
	partition bson.Value
	// tokenOf is the resource id that the request's token is for; nil without a token.
	tokenOf *string
	room    memory.Request // of a large body
	text    []byte         // the body, once it was read
	passed  int            // the status that another server has answered with; 0 for none
	// held is the memory for the response and for the data that it is made of; kept is the
	// part for the items in the response.
	held      memory.Account
	kept      memory.Holding
	keptBytes int
	cluster   *clusterRequest // what a router sent with it; nil for none
}

// Gateway answers as the service's routing gateway does, which refuses some ids
// in paths (checkID).
func (s *Server) Gateway() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, false) })
}

// ComputeGateway answers as the service's compute gateway does, for all ids.
func (s *Server) ComputeGateway() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, true) })
}

// serve serves one request of the client in its context.
func (s *Server) serve(w http.ResponseWriter, hr *http.Request, compute bool) {
	n := s.requests.Add(1)
	r := &request{Request: hr, s: s, w: w, charge: 1, now: time.Now(), compute: compute}
	r.op = &r.own
	defer r.begin(n)()
	client := command.ClientOf(hr.Context())
	if client == nil {
		client = &command.Client{Remote: hr.RemoteAddr, Protocol: Protocol}
	}
	if err := r.answer(client); err != nil {
		r.fail(err)
	}
}

// begin prepares the n-th request; the function that it returns ends it.
func (r *request) begin(n uint64) (end func()) {
	s := r.s
	r.expiryTime, r.written = s.clock.ExpiryTime()/1000, s.clock.Stamped()
	r.activity = s.activityID(n)
	r.room.Open(s.memory())
	r.held.Open(s.memory())
	r.kept = r.held.Hold(r)
	return func() {
		r.held.Close()
		r.room.Release()
	}
}

// activityID is the id of the n-th request: a UUID whose first digits are this
// server's.
func (s *Server) activityID(n uint64) string {
	b := append(make([]byte, 0, 36), s.activity...)
	for shift := 44; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[n>>shift&15])
	}
	return string(b)
}

const hexDigits = "0123456789abcdef"

// maxEnvelope bounds the part of a request around an item, in bytes.
const maxEnvelope = 64 << 10

// MaxRequest is the longest body that a request may have, in bytes.
const MaxRequest = maxBody + maxEnvelope

func (r *request) answer(client *command.Client) error {
	var err error
	if r.path, err = parsePath(r.escapedPath()); err != nil {
		return err
	}
	// A router asks other servers for what a resource id names: only for who proves that it may ask.
	if r.s.o.Cluster == nil || r.proves() {
		ctx, stop := context.WithTimeout(r.Request.Context(), resolveWait)
		err := r.s.resolve(ctx, &r.path)
		if stop(); err != nil {
			return err
		}
	}
	r.item = r.path.item
	return r.run(client)
}

// escapedPath returns the path as it was sent.
func (r *request) escapedPath() string {
	if target := r.RequestURI; strings.HasPrefix(target, "/") {
		path, _, _ := strings.Cut(target, "?")
		return path
	}
	return r.URL.EscapedPath()
}

// consistencies are the levels of consistency, from the weakest.
var consistencies = []string{"eventual", "consistentprefix", "session", "boundedstaleness", "strong"}

// checkHeaders rejects unsupported headers: a consistency above the account's, and
// triggers. Errors: 400.
func (r *request) checkHeaders() error {
	if asked := r.header("X-Ms-Consistency-Level"); asked != "" {
		level := slices.Index(consistencies, strings.ToLower(asked))
		if level < 0 {
			return badRequest("The consistency level '%s' is invalid.", asked)
		}
		if level > slices.Index(consistencies, strings.ToLower(r.s.o.Consistency)) {
			return badRequest("ConsistencyLevel %s specified in the request is invalid when service is configured with consistency level %s. "+
				"Ensure the request consistency level is not stronger than the service consistency level.", asked, r.s.o.Consistency)
		}
	}
	for _, name := range []string{"X-Ms-Documentdb-Pre-Trigger-Include", "X-Ms-Documentdb-Post-Trigger-Include"} {
		if t := r.header(name); t != "" {
			return badRequest("The trigger '%s' specified in the request header does not exist.", t)
		}
	}
	return nil
}

// body reads the request's body, which belongs to the connection and is valid until the end
// of the request. Errors: 413, and 429 if there is no memory for it.
func (r *request) body() ([]byte, error) {
	if r.text != nil {
		return r.text, nil
	}
	b, err := r.readBody()
	if err == nil {
		r.text = b
	}
	return b, err
}

func (r *request) readBody() ([]byte, error) {
	n := int(min(r.ContentLength, MaxRequest))
	if n < 0 { // in chunks: as long as it may be, until it is read
		n = MaxRequest
	}
	if err := r.room.Set(r.Context(), n); err != nil {
		return nil, err
	}
	b, err := r.readText()
	if err != nil {
		return nil, err
	}
	if len(b) < n {
		r.room.Release()
	}
	return b, r.room.Set(r.Context(), parsingRoom(b))
}

func (r *request) readText() ([]byte, error) {
	if m, ok := r.Body.(interface{ Bytes() []byte }); ok {
		return m.Bytes(), nil
	}
	if r.ContentLength > MaxRequest {
		return nil, errTooLarge
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, MaxRequest+1))
	if err != nil {
		return nil, badRequest("The body of the request could not be read.")
	}
	if len(b) > MaxRequest {
		return nil, errTooLarge
	}
	return b, nil
}

// parsingRoom is the memory for a body and what is made of it: two copies of the text, and the
// parsed form in a buffer that may just have grown. An element of an array that takes two bytes
// of the text takes up to valueRoom more there.
func parsingRoom(text []byte) int {
	const valueRoom = 12
	return 2*len(text) + 2*(len(text)+valueRoom*bytes.Count(text, []byte{','}))
}

// object reads the request's body as a JSON object. Errors: 400, 413.
func (r *request) object() (bson.Doc, error) {
	b, err := r.body()
	if err != nil {
		return nil, err
	}
	return parseObject(b)
}

func parseObject(b []byte) (bson.Doc, error) {
	v, err := nosql.ParseJSON(b)
	if err != nil || v.Type != bson.TypeDocument {
		return nil, badRequest("The input content is invalid because it is not a JSON object.")
	}
	return v.Doc(), nil
}

// header returns the value of a header by its canonical name, "" for none.
func (r *request) header(name string) string {
	if v := r.Header[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// flag returns a boolean header, in any case.
func (r *request) flag(name string) bool { return strings.EqualFold(r.header(name), "true") }

// jsonContent is the content type of every response.
var jsonContent = []string{"application/json"}

// common sets the headers of every response.
func (r *request) common() http.Header {
	h := r.w.Header()
	h["Content-Type"] = jsonContent
	if r.path.kind == kindAccount {
		return h
	}
	token := "0:-1#" + strconv.FormatInt(r.lsn, 10)
	v := []string{r.activity, strconv.FormatFloat(r.charge, 'f', -1, 64), token, token[len("0:-1#"):]}
	h["X-Ms-Activity-Id"], h["X-Ms-Request-Charge"], h["X-Ms-Session-Token"], h["Lsn"] = v[0:1:1], v[1:2:2], v[2:3:3], v[3:4:4]
	return h
}

// send sends a body in parts, none for no body.
func (r *request) send(status int, parts ...[]byte) error {
	h := r.common()
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	h["Content-Length"] = []string{strconv.Itoa(n)}
	r.op.ReplyBytes = n
	r.w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	for _, p := range parts {
		if _, err := r.w.Write(p); err != nil {
			break // a disconnected client needs no response
		}
	}
	return nil
}

func (r *request) sendDoc(status int, d bson.Doc) error {
	return r.send(status, nosql.AppendJSONDocument(nil, d))
}

// fail sends an error.
func (r *request) fail(err error) {
	e := asError(err)
	var b bson.Builder
	code := codes[e.Status]
	var text bson.Builder
	inner := text.Strings("Errors", e.Message).Finish()
	message := string(nosql.AppendJSONDocument([]byte("Message: "), inner))
	if strings.HasPrefix(e.Message, `{"errors":`) {
		message = "Message: " + e.Message
	}
	b.String("code", code).String("message", fmt.Sprintf("%s\r\nActivityId: %s, Request URI: %s", message, r.activity, r.URL.Path))
	if e.Plan != nil {
		b.String("additionalErrorInfo", string(nosql.AppendJSONDocument(nil, e.Plan)))
	}
	if e.Substatus != 0 {
		r.w.Header().Set("X-Ms-Substatus", strconv.Itoa(e.Substatus))
	}
	if e.Status == http.StatusTooManyRequests {
		r.w.Header().Set("X-Ms-Retry-After-Ms", retryAfter)
	}
	r.sendDoc(e.Status, b.Finish())
}

// retryAfter is how many milliseconds a client should wait after a 429.
const retryAfter = "1000"
