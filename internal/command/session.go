package command

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// SessionTimeout is how long an unused session lives.
const SessionTimeout = 30 * time.Minute

// SessionID names a logical session: what the client chose, and the digest of
// the user it belongs to.
type SessionID struct {
	ID  [16]byte
	UID [32]byte
}

// Session is one logical session of a client.
type Session struct {
	ID SessionID

	lastUse atomic.Int64 // nanoseconds since 1970
	pins    atomic.Int64 // operations that run in it
	numbered
}

// LastUse is when an operation of the session last began or ended.
func (s *Session) LastUse() time.Time { return time.Unix(0, s.lastUse.Load()) }

// String is the session's id as the server's messages print it: the user's digest in
// base64, and two empty parts, for transactions inside a session.
func (id SessionID) String() string {
	return fmt.Sprintf("%s - %s -  - ", bson.UUID(id.ID), base64.StdEncoding.EncodeToString(id.UID[:]))
}

// Document is the session's id as currentOp and others print it.
func (id SessionID) Document() bson.Doc {
	return new(bson.Builder).Binary("id", 4, id.ID[:]).Binary("uid", 0, id.UID[:]).Finish()
}

// Sessions is the table of logical sessions. A session begins when an operation first
// names it or startSession creates it, and is removed when it is ended or has not been
// used for SessionTimeout.
type Sessions struct {
	limit *IntParam
	mu    struct {
		sync.RWMutex
		all map[SessionID]*Session
	}
	jobs struct {
		count               atomic.Int64
		lastStart, lastTook atomic.Int64 // milliseconds
		lastEnded           atomic.Int64
		forgets             atomic.Int64 // runs of forgetSessions
		lastForgets         atomic.Int64 // milliseconds
		lastForgetsTook     atomic.Int64
		lastForgotten       atomic.Int64
		lastCursors         atomic.Int64
	}
}

// NewSessions makes an empty table, which the parameter maxSessions bounds.
func NewSessions(p *Params) *Sessions {
	s := &Sessions{limit: p.Int(IntSpec{Name: "maxSessions", Default: 1_000_000, Min: 1, HasMin: true, Startup: true})}
	s.mu.all = map[SessionID]*Session{}
	return s
}

// noUser is the digest of the empty name, which sessions have without authentication.
var noUser = sha256.Sum256(nil)

var lsidFields = NewFields("lsid",
	UUID("id").Required(), Digest("uid"), Int64("txnNumber"), UUID("txnUUID"))

// Drivers send {id: <binary of subtype 4>} and nothing else: lsidLen bytes, with
// lsidStart before the id.
const (
	lsidStart = "\x05id\x00\x10\x00\x00\x00\x04"
	lsidLen   = 4 + len(lsidStart) + 16 + 1
)

// ParseSessionID reads an lsid as clients send it, {id: UUID}; owner is the
// digest of the client's user.
func ParseSessionID(d bson.Doc, owner [32]byte) (SessionID, error) {
	id := SessionID{UID: owner}
	if len(d) == lsidLen && string(d[4:4+len(lsidStart)]) == lsidStart {
		id.ID = [16]byte(d[4+len(lsidStart):])
		return id, nil
	}
	a, err := ParseDoc(lsidFields, d)
	if err != nil {
		return id, err
	}
	return id.Of(&a), nil
}

// Of returns the id that {id, uid} names, with id's user where it names none.
func (id SessionID) Of(a *Args) SessionID {
	id.ID, _ = a.UUID("id")
	if v := a.Value("uid"); !v.IsMissing() {
		_, content := v.Binary()
		id.UID = [32]byte(content)
	}
	return id
}

// Start makes a session for a user, with a new id.
func (s *Sessions) Start(owner [32]byte) (*Session, error) {
	now := time.Now()
	se, err := s.acquire(SessionID{ID: bson.NewUUID(), UID: owner}, now)
	if err == nil {
		s.release(se, now)
	}
	return se, err
}

// impersonates is the privilege to use another user's session.
var impersonates = []auth.Need{auth.On(auth.Cluster, auth.Impersonate)}

// attach finds or makes op's session, and pins it. Errors: code 13 for another user's.
func (s *Sessions) attach(op *Op) (*Session, error) {
	if op.Generic.LSID == nil {
		return nil, nil
	}
	owner := op.Client.Owner()
	id, err := ParseSessionID(op.Generic.LSID, owner)
	if err != nil {
		return nil, err
	}
	if err := op.CheckSession(id); err != nil {
		return nil, err
	}
	return s.acquire(id, op.Start)
}

// CheckSession returns error 13 if the session belongs to another user and op's
// client may not act for that user.
func (op *Op) CheckSession(id SessionID) error {
	if id.UID == op.Client.Owner() || op.MayImpersonate() {
		return nil
	}
	return mongoerr.New(mongoerr.Unauthorized, "Unauthorized to set user digest in LogicalSessionId")
}

// MayImpersonate reports whether the client may act for other users.
func (op *Op) MayImpersonate() bool {
	return op.Dispatcher.Authorize == nil || op.Client.Internal || op.Client.mayAll(impersonates)
}

// acquire finds or makes a session, and pins it for an operation that begins at
// that time.
func (s *Sessions) acquire(id SessionID, at time.Time) (*Session, error) {
	now := at.UnixNano()
	s.mu.RLock()
	se := s.mu.all[id]
	if se != nil {
		se.pins.Add(1)
		se.lastUse.Store(now)
	}
	s.mu.RUnlock()
	if se != nil {
		return se, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if se = s.mu.all[id]; se == nil {
		if int64(len(s.mu.all)) >= s.limit.Load() {
			return nil, mongoerr.New(mongoerr.TooManyLogicalSessions,
				"Unable to add session into the cache because the number of active sessions is too high")
		}
		se = &Session{ID: id}
		s.mu.all[id] = se
	}
	se.pins.Add(1)
	se.lastUse.Store(now)
	return se, nil
}

func (s *Sessions) release(se *Session, at time.Time) {
	se.lastUse.Store(at.UnixNano())
	se.pins.Add(-1)
}

// UserDigest returns the digest by which sessions name their user; "" for both is
// nobody.
func UserDigest(user, db string) [32]byte {
	if user == "" && db == "" {
		return noUser
	}
	return auth.UserName{User: user, DB: db}.Digest()
}

// Find returns the session with that id, or nil.
func (s *Sessions) Find(id SessionID) *Session {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.all[id]
}

// All returns every session.
func (s *Sessions) All() []*Session {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]*Session, 0, len(s.mu.all))
	for _, se := range s.mu.all {
		all = append(all, se)
	}
	return all
}

// Count returns the number of sessions.
func (s *Sessions) Count() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.mu.all)
}

// Refresh marks the session as used now, and makes it if there is none.
func (s *Sessions) Refresh(id SessionID) error {
	now := time.Now()
	se, err := s.acquire(id, now)
	if err == nil {
		s.release(se, now)
	}
	return err
}

// expire removes the sessions that have been idle since before, and returns them.
func (s *Sessions) expire(before time.Time) []*Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []*Session
	for id, se := range s.mu.all {
		if se.pins.Load() == 0 && se.lastUse.Load() < before.UnixNano() && !se.hasPrepared() {
			delete(s.mu.all, id)
			gone = append(gone, se)
		}
	}
	return gone
}

// reserve is called before a session's records are removed: no operation uses the
// session until release is called. It is nil if the session is in use.
func (s *Sessions) reserve(id SessionID) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.all[id] != nil || int64(len(s.mu.all)) >= s.limit.Load() {
		return nil
	}
	se := &Session{ID: id}
	if se.take(context.Background()) != nil { // no other goroutine has it yet
		return nil
	}
	se.pins.Add(1)
	s.mu.all[id] = se
	return func() {
		se.leave()
		s.mu.Lock()
		defer s.mu.Unlock()
		if se.pins.Add(-1) == 0 {
			delete(s.mu.all, id)
		}
	}
}

// hasPrepared reports whether the session has a prepared transaction, which outlives it.
func (s *Session) hasPrepared() bool {
	t := s.shown.Load()
	return t != nil && t.preparedAt.Load() > 0
}

// EndSession forgets a session and closes its cursors.
func (d *Dispatcher) EndSession(id SessionID) {
	d.Sessions.mu.Lock()
	se := d.Sessions.mu.all[id]
	if se != nil && se.pins.Load() == 0 && !se.hasPrepared() {
		delete(d.Sessions.mu.all, id)
	}
	d.Sessions.mu.Unlock()
	d.Cursors.killSessions(func(s SessionID) bool { return s == id })
	if se != nil {
		d.abandonTransaction(se)
	}
}

// KillSessions ends the operations and cursors of the sessions that match, but not the
// operation except. The sessions themselves stay usable.
func (d *Dispatcher) KillSessions(except *Op, match func(SessionID) bool) {
	for _, op := range d.Clients.Ops() {
		if op != except && op.Session != nil && match(op.Session.ID) {
			op.kill(errKilled)
		}
	}
	d.Cursors.killSessions(match)
	for _, se := range d.Sessions.All() {
		if match(se.ID) && (except == nil || except.Session != se) {
			d.abandonTransaction(se)
		}
	}
}

// reapSessions ends the sessions that were idle for SessionTimeout.
func (d *Dispatcher) reapSessions(now time.Time) {
	j := &d.Sessions.jobs
	gone := d.Sessions.expire(now.Add(-SessionTimeout))
	cursors := 0
	if len(gone) > 0 {
		ids := make(map[SessionID]bool, len(gone))
		for _, se := range gone {
			ids[se.ID] = true
		}
		cursors = d.Cursors.killSessions(func(s SessionID) bool { return ids[s] })
	}
	j.count.Add(1)
	j.lastStart.Store(now.UnixMilli())
	j.lastTook.Store(time.Since(now).Milliseconds())
	j.lastEnded.Store(int64(len(gone)))
	j.lastCursors.Store(int64(cursors))
}

// appendStatus writes serverStatus's section logicalSessionRecordCache.
func (s *Sessions) appendStatus(b *bson.Builder) {
	j := &s.jobs
	b.Int("activeSessionsCount", int64(s.Count()))
	b.Int("sessionsCollectionJobCount", j.count.Load())
	b.Int("lastSessionsCollectionJobDurationMillis", j.lastTook.Load())
	b.Date("lastSessionsCollectionJobTimestamp", j.lastStart.Load())
	b.Int32("lastSessionsCollectionJobEntriesRefreshed", 0)
	b.Int("lastSessionsCollectionJobEntriesEnded", j.lastEnded.Load())
	b.Int("lastSessionsCollectionJobCursorsClosed", j.lastCursors.Load())
	b.Int("transactionReaperJobCount", j.forgets.Load()).Int("lastTransactionReaperJobDurationMillis", j.lastForgetsTook.Load())
	b.Date("lastTransactionReaperJobTimestamp", max(j.lastForgets.Load(), j.lastStart.Load()))
	b.Int("lastTransactionReaperJobEntriesCleanedUp", j.lastForgotten.Load()).Int32("sessionCatalogSize", 0)
}
