package nemesis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

const (
	// expireAfter is the expireAfterSeconds of the sessions.
	expireAfter   = 4 * time.Second
	expiryClients = 2
	// expiryEvery is how often somebody looks.
	expiryEvery = 500 * time.Millisecond
)

// expiry has clients make and touch sessions, which a TTL index removes. No session goes
// before its time, whatever the clocks of members say; all go in the end, on all members;
// each is told once in the oplog; and only primaries count removals.
type expiry struct {
	*ledger
	set      *set
	sessions *mongo.Collection
	reads    *mongo.Collection // read concern linearizable
	next     atomic.Int64

	state struct {
		sync.Mutex
		// until is the time until which each acknowledged session must be there.
		until map[string]time.Time
		early []string
		looks int
	}
	told    told
	removed removals
}

func newExpiry(t *testing.T, s *set) *expiry {
	t.Helper()
	db := s.connect().Database("app")
	e := &expiry{ledger: newLedger(), set: s, sessions: db.Collection("sessions"),
		reads: db.Collection("sessions", options.Collection().SetReadConcern(readconcern.Linearizable()))}
	e.state.until = map[string]time.Time{}
	e.told = told{begun: map[string]int{}, ended: map[string]int{}, entries: map[bson.Timestamp]string{}}
	e.removed = removals{last: make([]sample, members), primaries: map[int64]int{}}
	until(t, "the TTL index", func(ctx context.Context) error {
		_, err := e.sessions.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(int32(expireAfter / time.Second))})
		return err
	})
	return e
}

func (e *expiry) run(ctx context.Context) {
	var work sync.WaitGroup
	work.Go(func() { clients(ctx, expiryClients, func(ctx context.Context, _ int) { e.use(ctx) }) })
	work.Go(func() { every(ctx, expiryEvery, e.look) })
	work.Go(func() {
		every(ctx, 2*expiryEvery, func(ctx context.Context) {
			for _, m := range e.set.members {
				e.removed.look(ctx, m)
				_ = e.told.read(ctx, m) // what fails is read later
			}
		})
	})
	work.Wait()
}

// every does something again and again until ctx ends.
func every(ctx context.Context, pause time.Duration, do func(ctx context.Context)) {
	for ctx.Err() == nil {
		do(ctx)
		time.Sleep(pause)
	}
}

// use makes a session, and touches another one now and then.
func (e *expiry) use(ctx context.Context) {
	n := e.next.Add(1)
	token := fmt.Sprintf("session-%d", n)
	at := time.Now().Truncate(time.Millisecond)
	err := e.write(token, func() error {
		_, err := e.sessions.InsertOne(ctx, bson.D{{Key: "_id", Value: token}, {Key: "at", Value: at}})
		return err
	})
	if err == nil {
		e.stays(token, at)
	}
	if chance(0.5) {
		e.touch(ctx, fmt.Sprintf("session-%d", n-rand.Int64N(min(n, 300))))
	}
	time.Sleep(10 * time.Millisecond)
}

// stays notes until when a session must be there.
func (e *expiry) stays(token string, at time.Time) {
	e.state.Lock()
	defer e.state.Unlock()
	if u := at.Add(expireAfter); u.After(e.state.until[token]) {
		e.state.until[token] = u
	}
}

// must is until when a session must be there; zero for one that need not.
func (e *expiry) must(token string) time.Time {
	e.state.Lock()
	defer e.state.Unlock()
	return e.state.until[token]
}

func (e *expiry) gone(token, how string, until, now time.Time) {
	e.state.Lock()
	defer e.state.Unlock()
	e.state.early = append(e.state.early, fmt.Sprintf("%s was not there for %s, %v before its time", token, how, until.Sub(now)))
}

func (e *expiry) touch(ctx context.Context, token string) {
	must := e.must(token)
	at := time.Now().Truncate(time.Millisecond)
	r, err := e.sessions.UpdateOne(ctx, bson.D{{Key: "_id", Value: token}}, bson.D{{Key: "$max", Value: bson.D{{Key: "at", Value: at}}}})
	now := time.Now()
	switch {
	case err != nil:
	case r.MatchedCount == 1:
		e.stays(token, at)
	case now.Before(must):
		e.gone(token, "an update", must, now)
	}
}

// look reads all sessions, and demands those that must be there.
func (e *expiry) look(ctx context.Context) {
	e.state.Lock()
	must := map[string]time.Time{}
	now := time.Now()
	for token, u := range e.state.until {
		switch {
		case u.After(now):
			must[token] = u
		case u.Before(now.Add(-time.Minute)):
			delete(e.state.until, token) // nobody touches it any more
		}
	}
	e.state.Unlock()
	var docs []struct {
		ID string `bson:"_id"`
	}
	cur, err := e.reads.Find(ctx, bson.D{}, options.Find().SetBatchSize(1<<20))
	if err == nil {
		err = cur.All(ctx, &docs)
	}
	if err != nil {
		return
	}
	now = time.Now()
	there := map[string]bool{}
	for _, d := range docs {
		there[d.ID] = true
	}
	for token, u := range must {
		if u.After(now) && !there[token] {
			e.gone(token, "a read", u, now)
		}
	}
	e.state.Lock()
	e.state.looks++
	e.state.Unlock()
}

func (e *expiry) check(t *testing.T) {
	nearest := options.Collection().SetReadPreference(readpref.Nearest())
	until(t, "all sessions have expired on all members", func(ctx context.Context) error {
		for _, m := range e.set.members {
			n, err := m.client.Database("app").Collection("sessions", nearest).CountDocuments(ctx, bson.D{})
			if err == nil && n > 0 {
				err = fmt.Errorf("member %d has %d", m.number, n)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	for _, m := range e.set.members {
		if err := e.told.read(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	e.told.check(t, e.ledger)
	if len(e.state.early) > 0 {
		t.Errorf("expiry: %d sessions went before their time: %v", len(e.state.early), e.state.early[:min(len(e.state.early), 10)])
	}
	for _, wrong := range append(e.removed.wrong, e.told.wrong...) {
		t.Errorf("expiry: %s", wrong)
	}
	t.Logf("expiry: %d looks at sessions, %d at counters; errors: %v", e.state.looks, e.removed.looks, e.failures)
	if e.state.looks == 0 || e.removed.looks == 0 {
		t.Error("expiry: nobody has looked")
	}
}

// told is what the oplogs of all members tell of sessions.
type told struct {
	begun, ended map[string]int            // how often by _id
	ranges       int64                     // documents that went by ranges
	entries      map[bson.Timestamp]string // that were read on any member
	last         [members]bson.Timestamp
	wrong        []string
}

// read reads on in the oplog of a member: what it tells at a time is what others tell.
func (o *told) read(ctx context.Context, m *member) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	c := m.client.Database("local").Collection("oplog.rs", options.Collection().SetReadPreference(readpref.Nearest()))
	cur, err := c.Find(ctx, bson.D{{Key: "ts", Value: bson.D{{Key: "$gt", Value: o.last[m.number]}}}})
	if err != nil {
		return err
	}
	for cur.Next(ctx) {
		var at bson.Timestamp
		at.T, at.I = cur.Current.Lookup("ts").Timestamp()
		o.last[m.number] = at
		if cur.Current.Lookup("ns").StringValue() == "app.sessions" {
			o.note(m, at, cur.Current)
		}
	}
	return errors.Join(cur.Err(), cur.Close(ctx))
}

// note notes an entry.
func (o *told) note(m *member, at bson.Timestamp, entry bson.Raw) {
	before, known := o.entries[at]
	o.entries[at] = string(entry)
	if known {
		if before != string(entry) {
			o.wrong = append(o.wrong, fmt.Sprintf("the oplog of member %d has %v, others have %v", m.number, entry, bson.Raw(before)))
		}
		return
	}
	id, _ := entry.Lookup("o", "_id").StringValueOK()
	switch entry.Lookup("op").StringValue() {
	case "i":
		o.begun[id]++
	case "d":
		o.ended[id]++
	case "n":
		n, _ := entry.Lookup("o2", "documents").AsInt64OK()
		o.ranges += n
	}
}

// check demands that each session that was inserted has gone once.
func (o *told) check(t *testing.T, l *ledger) {
	t.Helper()
	for token := range l.acked {
		if o.begun[token] == 0 {
			t.Errorf("expiry: %s was acknowledged, and the oplog does not tell of it", token)
		}
	}
	for id, n := range o.begun {
		if n > 1 {
			t.Errorf("expiry: the oplog tells %d times that %s was inserted", n, id)
		}
	}
	for id, n := range o.ended {
		if n > 1 || o.begun[id] == 0 {
			t.Errorf("expiry: the oplog tells %d times that %s was deleted, and %d times that it was inserted", n, id, o.begun[id])
		}
	}
	if int64(len(o.begun)) != int64(len(o.ended))+o.ranges {
		t.Errorf("expiry: %d sessions were inserted, %d deleted, and %d went by ranges", len(o.begun), len(o.ended), o.ranges)
	}
	t.Logf("expiry: %d of %d sessions acknowledged; the oplog tells of %d inserted, %d deleted, %d by ranges", len(l.acked), len(l.begun), len(o.begun), len(o.ended), o.ranges)
}

// removals watches what members count as removed.
type removals struct {
	last      []sample
	primaries map[int64]int // of each term, as far as somebody was seen
	wrong     []string
	looks     int
}

// sample is what a member was at a moment, and what it had counted.
type sample struct {
	pid       int64
	term      int64
	secondary bool // before and after it was asked what it counts, in this term
	removed   int64
}

// look samples a member: its state, what it counts, and its state again.
func (r *removals) look(ctx context.Context, m *member) {
	before, err := m.status(ctx)
	if err != nil {
		return
	}
	var s struct {
		PID     int64
		Metrics struct {
			TTL struct {
				Deleted int64 `bson:"deletedDocuments"`
			}
		}
	}
	if m.admin(ctx, &s, bson.E{Key: "serverStatus", Value: 1}) != nil {
		return
	}
	after, err := m.status(ctx)
	if err != nil {
		return
	}
	r.looks++
	for _, st := range []status{before, after} {
		if st.State == statePrimary {
			r.primaries[st.Term] = m.number
		}
	}
	now := sample{pid: s.PID, term: after.Term, removed: s.Metrics.TTL.Deleted,
		secondary: before.State == stateSecondary && after.State == stateSecondary && before.Term == after.Term}
	last := r.last[m.number]
	r.last[m.number] = now
	// A term has one primary: who is a secondary before and after, in a term that another
	// one leads, was none in between.
	primary, known := r.primaries[now.term]
	if last.pid == now.pid && last.secondary && now.secondary && last.term == now.term && known && primary != m.number && now.removed != last.removed {
		r.wrong = append(r.wrong, fmt.Sprintf("member %d counts %d removals more, and is a secondary of term %d", m.number, now.removed-last.removed, now.term))
	}
}
