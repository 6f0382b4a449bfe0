package expire

import (
	"math"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// rule names one thing that expires documents: an index of a collection, or
// its own expireAfterSeconds where index is empty.
type rule struct {
	collection catalog.UUID
	index      string
}

// ruleState is the monitor's state of one rule.
type ruleState struct {
	sync.Mutex
	Record
	ns      string
	budget  budget
	rate    rate
	place   place // where the last visit of this pass ended
	unspent int64 // sub-passes in a row that hit a limit

	// cleared is the instant up to which nothing is left, as far as visits know:
	// what is written with an earlier one in between is left to the next pass. It
	// holds for the rule as it was then.
	cleared int64
	seconds int64
	in      storage.Ident
	archive archiveState
	// pass is what was removed since the last pass ended.
	pass Removed
}

// Record is what a rule has done since the start.
type Record struct {
	Removed
	// Last is the last visit that belonged to a pass or found something due.
	Last Visit
	// Lag is how long the oldest due document had been due at the last due check.
	Lag time.Duration
	// Spent says that a budget ended the last visit.
	Spent bool
	// Unshared says that it was so because this shard has no part of it.
	Unshared bool
	// ArchiveError is why nothing is archived since ArchiveSince; nil if it is.
	ArchiveError error
	ArchiveSince time.Time
	archive      *schema.Archive // where it failed
	// PerSecond is how many documents are removed per second, on average over a
	// minute.
	PerSecond float64
}

// Removed counts what was removed. The documents of a time-series collection
// are measurements, which are removed in buckets, each with a key.
type Removed struct{ Documents, Buckets, Bytes, Keys int64 }

// removedBy returns what a commit has removed.
func removedBy(b Batch) Removed {
	r := Removed{Documents: b.Docs, Bytes: b.Bytes, Keys: b.KeysDeleted}
	if b.Measurements > 0 {
		r.Documents, r.Buckets = b.Measurements, b.Docs
	}
	return r
}

func (r *Removed) add(o Removed) {
	r.Documents += o.Documents
	r.Buckets += o.Buckets
	r.Bytes += o.Bytes
	r.Keys += o.Keys
}

// Visit is what one visit of a rule did.
type Visit struct {
	At   time.Time // zero: there was none
	Took time.Duration
	Removed
	More bool // it stopped at a limit
}

// place is where the last visit of a rule ended, in the keyspace of its index.
type place struct {
	in    storage.Ident
	entry []byte
}

// ruleStates are the monitor's states of all rules.
type ruleStates struct {
	mu struct {
		sync.Mutex
		rules       map[rule]*ruleState
		collections map[catalog.UUID]*budget
	}
	all budget
}

func newRuleStates() *ruleStates {
	t := &ruleStates{}
	t.mu.rules, t.mu.collections = map[rule]*ruleState{}, map[catalog.UUID]*budget{}
	return t
}

// of returns the state of a rule, which it creates for a new rule.
func (t *ruleStates) of(r rule) *ruleState {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.mu.rules[r]
	if k == nil {
		k = &ruleState{cleared: math.MinInt64}
		t.mu.rules[r] = k
	}
	return k
}

// known returns the state of a rule, or nil.
func (t *ruleStates) known(r rule) *ruleState {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.rules[r]
}

// keep forgets the rules that are not among rs.
func (t *ruleStates) keep(rs []rule) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rules, collections := map[rule]bool{}, map[catalog.UUID]bool{}
	for _, r := range rs {
		rules[r], collections[r.collection] = true, true
	}
	for r := range t.mu.rules {
		if !rules[r] {
			delete(t.mu.rules, r)
		}
	}
	for id := range t.mu.collections {
		if !collections[id] {
			delete(t.mu.collections, id)
		}
	}
}

// budgetOf returns the budget of a rule's index, or of its collection.
func (t *ruleStates) budgetOf(r rule) *budget {
	if r.index != "" {
		return &t.of(r).budget
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.mu.collections[r.collection]
	if of == nil {
		of = &budget{}
		t.mu.collections[r.collection] = of
	}
	return of
}

// budgets returns those that a visit of a rule must keep within: the rule's
// own, its collection's, and that of all removal. shared says that the first two are shared
// with other shards.
func (t *ruleStates) budgets(c *catalog.Collection, own schema.Budget, k *ruleState, all schema.Budget, shared bool) []*budget {
	of, now := t.budgetOf(rule{collection: c.UUID}), time.Now()
	k.budget.set(own, shared, now)
	of.set(c.Settings.Expiry.Budget, shared, now)
	t.all.set(all, false, now)
	return []*budget{&k.budget, of, &t.all}
}

// left returns how many documents and bytes budgets leave.
func (k *ruleState) left(budgets []*budget) (docs, bytes int64) {
	docs, bytes = unlimited, unlimited
	lost := false
	for _, b := range budgets {
		now := time.Now()
		n, size := b.left(now)
		docs, bytes, lost = min(docs, n), min(bytes, size), lost || b.lost(now)
	}
	k.Lock()
	defer k.Unlock()
	k.Spent, k.Unshared = docs == 0, lost
	return docs, bytes
}

// forgetPlace makes the next visit begin at the first entry.
func (k *ruleState) forgetPlace() {
	k.Lock()
	defer k.Unlock()
	k.place = place{}
}

// follow adapts the state to the rule as it is now: after a change of its time to live
// everything has to be checked again.
func (k *ruleState) follow(c *catalog.Collection, r *catalog.Rule, now int64) {
	k.followRule(c.Namespace.String(), r.Index.Ident, r.Seconds, now)
	k.Lock()
	defer k.Unlock()
	if a := r.Settings.Archive; !a.Same(k.archive.to) { // nothing is known of another place
		k.archive = archiveState{to: a}
	}
}

func (k *ruleState) followRule(ns string, in storage.Ident, seconds, now int64) {
	k.Lock()
	defer k.Unlock()
	k.ns = ns
	switch {
	case k.in == 0:
		// What is due when a rule is new waits for the next pass: whoever made it by
		// mistake has that time to undo it.
		k.cleared = now
	case k.in != in || k.seconds != seconds:
		k.cleared = math.MinInt64
	}
	k.in, k.seconds = in, seconds
}

// other reports whether a time to live differs from that of the rule when it was
// last followed.
func (k *ruleState) other(seconds int64) bool {
	k.Lock()
	defer k.Unlock()
	return k.in != 0 && k.seconds != seconds
}

// goOn has due checks go on with all that is due where a budget has ended the visit of a pass.
func (k *ruleState) goOn() {
	k.Lock()
	defer k.Unlock()
	if k.Spent {
		k.cleared = math.MinInt64
	}
}

// late notes for how long something has been due, given its instant.
func (k *ruleState) late(due, now int64) {
	k.Lock()
	defer k.Unlock()
	k.Lag = 0
	if due <= now {
		k.Lag = time.Duration(now-due) * time.Millisecond
	}
}

// book counts what a commit has removed.
func (k *ruleState) book(b Batch) {
	k.Lock()
	defer k.Unlock()
	gone := removedBy(b)
	k.Removed.add(gone)
	k.pass.add(gone)
	k.rate.add(gone.Documents, time.Now())
}

// record returns what the rule has done so far.
func (k *ruleState) record() Record {
	k.Lock()
	defer k.Unlock()
	r := k.Record
	r.PerSecond = k.rate.perSecond(time.Now())
	r.ArchiveError, r.ArchiveSince, r.archive = k.archive.err, k.archive.since, k.archive.to
	return r
}

// rate is an exponential average over about a minute.
type rate struct {
	sum float64
	at  time.Time
}

func (r *rate) fade(now time.Time) {
	if !r.at.IsZero() {
		r.sum *= math.Exp(-now.Sub(r.at).Minutes())
	}
	r.at = now
}

func (r *rate) add(n int64, now time.Time) {
	r.fade(now)
	r.sum += float64(n)
}

func (r *rate) perSecond(now time.Time) float64 {
	r.fade(now)
	return math.Round(r.sum/60*100) / 100
}

// archiveState is whether the store of a rule's archive works.
type archiveState struct {
	to          *schema.Archive // of what rule it is said, as that was followed last
	err         error           // nil if it does, as far as is known
	since, next time.Time
	pause       time.Duration
}

// mayArchive reports whether the store of the rule's archive may be asked again.
func (k *ruleState) mayArchive(now time.Time) bool {
	k.Lock()
	defer k.Unlock()
	return k.archive.err == nil || !now.Before(k.archive.next)
}

// archiveFailed notes that the store of the rule's archive has failed. first says that it had not
// before.
func (k *ruleState) archiveFailed(err error, now time.Time) (first bool) {
	k.Lock()
	defer k.Unlock()
	a := &k.archive
	if first = a.err == nil; first {
		a.since, a.pause = now, archivePause/2
	}
	a.pause = min(2*a.pause, maxArchivePause)
	a.err, a.next = err, now.Add(a.pause)
	return first
}

// archiveBack notes that the store works, or that nothing waits for it, and returns since when it did
// not work, or zero.
func (k *ruleState) archiveBack() (since time.Time) {
	k.Lock()
	defer k.Unlock()
	since, k.archive = k.archive.since, archiveState{to: k.archive.to}
	return since
}

// archiveAway returns the error of the store of a rule's archive, nil if it works or the rule archives
// somewhere else by now.
func (r *Record) archiveAway(now *schema.Rule) error {
	if !now.Settings.Archive.Same(r.archive) {
		return nil
	}
	return r.ArchiveError
}
