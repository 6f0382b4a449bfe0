package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/telemetry"
	"github.com/mayflydb/mayfly/internal/wire"
)

// selectionTime is how long a call waits for an eligible member, unless its context ends
// first. (mongos: defaultFindReplicaSetHostTimeoutMS.)
const selectionTime = 15 * time.Second

// Bounds of the pause between two attempts of a call, which doubles each time.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = time.Second
)

// SetString is the connection string of a replica set: "rs0/h1:27017,h2:27017".
type SetString struct {
	Name  string
	Hosts []string
}

// ParseSetString reads "name/host:port,…". The default port is 27017. Error 9.
func ParseSetString(text string) (SetString, error) {
	name, hosts, ok := strings.Cut(text, "/")
	if !ok || name == "" || hosts == "" {
		return SetString{}, mongoerr.New(mongoerr.FailedToParse, "'%s' does not name a replica set and its members: name/host:port,host:port", text)
	}
	s := SetString{Name: name}
	for h := range strings.SplitSeq(hosts, ",") {
		if h = strings.TrimSpace(h); h == "" || strings.Contains(h, "/") {
			return SetString{}, mongoerr.New(mongoerr.FailedToParse, "'%s' has a member without a host", text)
		}
		if i := strings.LastIndexByte(h, ':'); i < 0 || strings.HasSuffix(h, "]") {
			h += ":27017"
		}
		s.Hosts = append(s.Hosts, h)
	}
	return s, nil
}

// String formats the set as ParseSetString reads it.
func (s SetString) String() string { return s.Name + "/" + strings.Join(s.Hosts, ",") }

// Set is a client of a replica set: its members, which of them is the primary, and
// connections to each. It is safe for concurrent use.
type Set struct {
	name    string
	options Options
	times   Times

	life     context.Context
	end      context.CancelFunc
	watching sync.WaitGroup
	mu       struct {
		sync.Mutex
		members  []*member
		election [12]byte      // the latest electionId seen,
		version  int64         // and its setVersion
		changed  chan struct{} // closed and replaced at each change
		closed   bool
	}
}

// OpenSet monitors a set until Close. It does not wait for its members. Options.Address is
// ignored. times are shared by the caller's Sets.
func OpenSet(at SetString, o Options, times Times) *Set {
	s := &Set{name: at.Name, options: o, times: times}
	s.life, s.end = context.WithCancel(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.changed = make(chan struct{})
	for _, h := range at.Hosts {
		s.addLocked(h)
	}
	return s
}

// Close closes the connections, and waits for the set's goroutines. Calls in progress fail.
func (s *Set) Close() {
	s.end()
	s.mu.Lock()
	s.mu.closed = true
	all := slices.Clone(s.mu.members)
	for _, m := range all {
		m.close()
	}
	s.mu.Unlock()
	for _, m := range all {
		m.end()
	}
	s.watching.Wait()
}

// Name is the set's name.
func (s *Set) Name() string { return s.name }

// At returns the set with its current members.
func (s *Set) At() SetString {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := SetString{Name: s.name}
	for _, m := range s.mu.members {
		at.Hosts = append(at.Hosts, m.address)
	}
	slices.Sort(at.Hosts)
	return at
}

// Primary is the address of the primary, "" while none is known.
func (s *Set) Primary() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.primaryLocked(); m != nil {
		return m.address
	}
	return ""
}

// Call is a command for one member of a set.
type Call struct {
	DB string
	// Body has neither $db nor $clusterTime nor $readPreference.
	Body      bson.Doc
	Sequences []wire.Sequence
	// Read says which members are eligible.
	Read ReadPreference
	// Member is the only eligible member, for instance because it has the cursor; "" for
	// any that Read allows.
	Member string
	// Idempotent says that executing the call twice has no further effect: a read, or a
	// write with a txnNumber. Only then it is retried after an error that leaves open
	// whether it was executed.
	Idempotent bool
}

// bodyRoom is what ask appends to a body, in bytes, and less than that usually.
const bodyRoom = 256

// size is how many bytes the arguments of the call take.
func (c *Call) size() int {
	n := len(c.Body)
	for i := range c.Sequences {
		n += c.Sequences[i].Size()
	}
	return n
}

// Answer is a reply, and the member that sent it.
type Answer struct {
	Reply  bson.Doc
	Member string
}

// Run sends a call to an eligible member. If that member is unreachable or no longer
// primary, it tries another one, until ctx ends. The caller owns the reply, which is also
// returned with an error from the server. Errors: the server's; 133 if no member is
// eligible; 6 if the connection is lost and the call must not be retried; the cause of ctx.
func (s *Set) Run(ctx context.Context, c Call) (Answer, error) {
	name, _ := c.Body.First()
	ctx, asked := telemetry.Ask(ctx, name, s.name)
	if asked == nil {
		return s.run(ctx, c)
	}
	c.Body = partOf(c.Body, asked.Parent())
	a, err := s.run(ctx, c)
	asked.Count("mayfly.reply_bytes", int64(len(a.Reply)))
	asked.Fail(err)
	asked.End()
	return a, err
}

// partOf returns the body of a command that is a part of a trace.
func partOf(body bson.Doc, parent string) bson.Doc {
	b := new(bson.Builder).Reset(make([]byte, 0, len(body)+bodyRoom))
	for name, v := range body.All() {
		if name != telemetry.Argument {
			b.Value(name, v)
		}
	}
	return b.OpenDoc(telemetry.Argument).String(telemetry.ParentField, parent).Close().Finish()
}

func (s *Set) run(ctx context.Context, c Call) (Answer, error) {
	deadline := time.Now().Add(selectionTime)
	var last error
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		m, err := s.choose(ctx, &c, deadline, last)
		if err != nil {
			return Answer{}, err
		}
		answer, sent, err := s.ask(ctx, m, &c)
		if err == nil {
			return answer, nil
		}
		if ctx.Err() != nil {
			return answer, context.Cause(ctx)
		}
		again := false
		var refused *mongoerr.Error
		if errors.As(err, &refused) {
			changed, unexecuted := stateChange(refused.Code)
			if changed {
				s.lost(m, err, false)
			}
			again = changed && (unexecuted || c.Idempotent) && c.Member == ""
		} else {
			s.lost(m, err, true)
			again = (!sent || c.Idempotent) && c.Member == ""
			err = unreachable(m.address, err)
		}
		if !again || time.Now().After(deadline) || s.life.Err() != nil {
			return answer, err
		}
		last = err
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return answer, context.Cause(ctx)
		}
	}
}

func unreachable(address string, err error) error {
	return mongoerr.New(mongoerr.HostUnreachable, "Error connecting to %s :: caused by :: %s", address, err.Error())
}

// stateChange reports whether an error means that a member no longer has the role that the
// Set has recorded, and whether the command was certainly not executed.
func stateChange(c mongoerr.Code) (changed, unexecuted bool) {
	switch c {
	case mongoerr.NotWritablePrimary, mongoerr.NotPrimaryNoSecondaryOk, mongoerr.NotPrimaryOrSecondary, mongoerr.Code(10058):
		return true, true
	case mongoerr.PrimarySteppedDown, mongoerr.InterruptedAtShutdown, mongoerr.InterruptedDueToReplStateChange, mongoerr.ShutdownInProgress:
		return true, false
	}
	return false, false
}

// ask sends c to m. sent says that m may have received it.
func (s *Set) ask(ctx context.Context, m *member, c *Call) (a Answer, sent bool, err error) {
	conn, life, err := m.take(ctx, c.size() <= maxStreamed)
	if err != nil {
		return a, false, err
	}
	defer m.give(conn, life)
	b := new(bson.Builder).Reset(make([]byte, 0, len(c.Body)+bodyRoom)).Fields(c.Body)
	if c.Member == "" {
		c.Read.Append(b)
	} else {
		nearest := ReadPreference{Mode: Nearest}
		nearest.Append(b)
	}
	AppendTime(b, s.times.Now())
	a.Member = m.address
	a.Reply, err = conn.run(ctx, b.String("$db", c.DB).Finish(), c.Sequences)
	if a.Reply != nil {
		if late := hearReply(s.times, a.Reply); late != nil && err == nil {
			err = late // what it tells is not before what this process does next
		}
	}
	return a, true, err
}

// choose waits for an eligible member. Errors: last, or 133, after deadline; the cause of
// ctx; 91 if the set is closed.
func (s *Set) choose(ctx context.Context, c *Call, deadline time.Time, last error) (*member, error) {
	var timer *time.Timer
	for {
		s.mu.Lock()
		m, changed, closed := s.chooseLocked(c), s.mu.changed, s.mu.closed
		if m == nil && !closed {
			for _, o := range s.mu.members {
				if o.role != rolePrimary {
					o.checkNow()
				}
			}
		}
		s.mu.Unlock()
		switch {
		case closed:
			return nil, mongoerr.New(mongoerr.ShutdownInProgress, "the connections to %s are closed", s.name)
		case m != nil:
			return m, nil
		case c.Member != "": // the only eligible member is gone
			return nil, mongoerr.New(mongoerr.HostUnreachable, "%s is no longer a member of %s", c.Member, s.name)
		}
		if timer == nil {
			timer = time.NewTimer(time.Until(deadline))
			defer timer.Stop()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.life.Done():
		case <-timer.C:
			if last != nil {
				return nil, last
			}
			return nil, s.noMember(c)
		}
	}
}

// noMember returns the error for a call without an eligible member, with the state of each.
func (s *Set) noMember(c *Call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := "Could not find host matching read preference { mode: \"" + c.Read.Mode.String() + "\" } for set " + s.name
	for _, m := range s.mu.members {
		if m.failure != nil {
			text += "; " + m.address + ": " + m.failure.Error()
		}
	}
	return mongoerr.New(mongoerr.FailedToSatisfyReadPreference, "%s", text)
}

func (s *Set) chooseLocked(c *Call) *member {
	if c.Member != "" {
		i := slices.IndexFunc(s.mu.members, func(m *member) bool { return m.address == c.Member })
		if i < 0 {
			return nil
		}
		return s.mu.members[i]
	}
	return c.Read.choose(s.primaryLocked(), s.mu.members)
}

func (s *Set) primaryLocked() *member {
	for _, m := range s.mu.members {
		if m.role == rolePrimary {
			return m
		}
	}
	return nil
}

// lost records that m's role is unknown; dropped says that a connection to it broke.
func (s *Set) lost(m *member, err error, dropped bool) {
	s.mu.Lock()
	m.role, m.failure = roleUnknown, err
	s.mu.Unlock()
	if dropped {
		m.drop()
	}
	m.checkNow()
}

// addLocked adds a member to the set and starts its monitor.
func (s *Set) addLocked(address string) {
	m := newMember(address, s.options)
	ctx, stop := context.WithCancel(s.life)
	m.stop = stop
	s.mu.members = append(s.mu.members, m)
	s.watching.Go(func() { s.watch(ctx, m) })
}

// watch monitors a member.
func (s *Set) watch(ctx context.Context, m *member) {
	defer m.stop()
	var conn *Conn // not from the pool, whose connections may all be in use
	defer func() {
		if conn != nil {
			_ = conn.Close()
		}
	}()
	for ctx.Err() == nil {
		pause := heartbeat
		if err := s.hello(ctx, m, &conn); err != nil {
			pause = failedPause
			if ctx.Err() == nil {
				s.lostQuietly(m, err)
			}
			if mongoerr.Is(err, mongoerr.AuthenticationFailed) && Sleep(ctx, heartbeat) != nil { // it delays who tries at once
				return
			}
		}
		m.tend()
		if !m.rest(ctx, pause) {
			return
		}
	}
}

// Sleep waits before an attempt is repeated. It returns the cause if ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// rest waits until the next check: at least failedPause, however many callers wait.
func (m *member) rest(ctx context.Context, pause time.Duration) bool {
	if Sleep(ctx, min(pause, failedPause)) != nil {
		return false
	}
	if pause <= failedPause {
		return true
	}
	timer := time.NewTimer(pause - failedPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.kick:
	case <-ctx.Done():
		return false
	}
	return true
}

// lostQuietly is lost for the monitor itself, which checks again anyway.
func (s *Set) lostQuietly(m *member, err error) {
	s.mu.Lock()
	again := mongoerr.Is(m.failure, mongoerr.AuthenticationFailed)
	m.role, m.failure = roleUnknown, err
	s.mu.Unlock()
	if mongoerr.Is(err, mongoerr.AuthenticationFailed) && !again && s.options.Log != nil {
		s.options.Log.Error("A server refuses the login of this process: do both have the same key file?",
			"id", logRefused, "server", m.address, "set", s.name, "error", err.Error())
	}
	m.drop()
}

// logRefused is the id of the line about a server that refuses a login.
const logRefused = 9000050

var helloCall = new(bson.Builder).Int32("hello", 1).Finish()

// hello sends hello to a member, and updates its state. It keeps the connection in conn.
func (s *Set) hello(ctx context.Context, m *member, conn **Conn) (err error) {
	ctx, cancel := context.WithTimeout(ctx, helloTime)
	defer cancel()
	if *conn == nil {
		if *conn, err = Connect(ctx, m.options); err != nil {
			*conn = nil
			return err
		}
	}
	began := time.Now()
	reply, err := (*conn).Run(ctx, "admin", helloCall)
	if err != nil {
		_ = (*conn).Close()
		*conn = nil
		return err
	}
	s.heard(m, reply, time.Since(began))
	return nil
}

// heard updates the set from a member's reply to hello.
// (Specification: "Server Discovery and Monitoring".)
func (s *Set) heard(m *member, hello bson.Doc, took time.Duration) {
	_ = hearReply(s.times, hello) // a time that is too far ahead is an error of each call
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed || !slices.Contains(s.mu.members, m) {
		return
	}
	m.seen, m.failure = time.Now(), nil
	if m.took == 0 {
		m.took = took
	}
	m.took = (4*m.took + took) / 5
	m.tags = nil
	if v := hello.Lookup("tags"); v.Type == bson.TypeDocument {
		m.tags = v.Doc().Clone()
	}
	if v := hello.Lookup("lastWrite"); v.Type == bson.TypeDocument {
		if d := v.Doc().Lookup("lastWriteDate"); d.Type == bson.TypeDate {
			m.lastWrite = time.UnixMilli(d.Date())
		}
	}
	m.role = roleOther
	if name := hello.Lookup("setName"); name.Type == bson.TypeString && name.Str() == s.name {
		s.roleLocked(m, hello)
		s.membersLocked(m, hello)
	}
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

// roleLocked sets the role of a member. Of two that claim to be primary, the one with the
// later election is.
func (s *Set) roleLocked(m *member, hello bson.Doc) {
	switch {
	case hello.Lookup("isWritablePrimary").Truthy():
		m.election, m.version = [12]byte{}, bson.ClampToInt64(hello.Lookup("setVersion"))
		if v := hello.Lookup("electionId"); v.Type == bson.TypeObjectID {
			m.election = v.ObjectID()
		}
		if c := slices.Compare(m.election[:], s.mu.election[:]); c < 0 || c == 0 && m.version < s.mu.version {
			m.role = roleUnknown
			return
		}
		s.mu.election, s.mu.version = m.election, m.version
		for _, o := range s.mu.members {
			if o != m && o.role == rolePrimary {
				o.role = roleUnknown
				o.checkNow()
			}
		}
		m.role = rolePrimary
	case hello.Lookup("secondary").Truthy() && !hello.Lookup("hidden").Truthy():
		m.role = roleSecondary
	}
}

// membersLocked adds new members and, if the reply is the primary's, removes those that are
// gone.
func (s *Set) membersLocked(from *member, hello bson.Doc) {
	var hosts []string
	for _, name := range []string{"hosts", "passives", "arbiters"} {
		if v := hello.Lookup(name); v.Type == bson.TypeArray {
			for h := range v.Doc().Values() {
				if h.Type == bson.TypeString {
					hosts = append(hosts, strings.Clone(h.Str()))
				}
			}
		}
	}
	for _, h := range hosts {
		if !slices.ContainsFunc(s.mu.members, func(m *member) bool { return m.address == h }) {
			s.addLocked(h)
		}
	}
	if from.role != rolePrimary || len(hosts) == 0 {
		return
	}
	s.mu.members = slices.DeleteFunc(s.mu.members, func(m *member) bool {
		gone := !slices.Contains(hosts, m.address)
		if gone {
			m.close()
		}
		return gone
	})
}
