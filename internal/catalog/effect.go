package catalog

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/mayflydb/mayfly/internal/catalog/pending"
	"github.com/mayflydb/mayfly/internal/storage"
)

// Effect is what a unit does when it commits, as a value: the bytes of its batch, notes of
// what changes in memory and, if they are recorded, operations. Apply applies it, on the
// member that proposed it and on any other one (docs/rfcs/0014-a-commit-is-a-value.md).
//
// An effect that is never applied leaves no trace.
type Effect struct {
	c     *Catalog
	u     *storage.Unit
	notes []note
	dues  []dueNote  // one for each collection
	hints []hintNote // not encoded: their content is checked on each use
	ops   operations
	// at is when the evaluation began.
	at Evaluation
	// executed is the note of the effect's statements of a session, which may retry them;
	// nil for none.
	executed *executedNote
	// also is the note of a statement of another session that a transaction has executed.
	also *executedNote
	// prepared is the note of the transaction that the effect prepares; nil for none.
	prepared *preparedNote
	// timed is where the effect has its own time in the log; nil for nowhere.
	timed *timedWrite
	// write has the effect's pending versions once its order is decided; nil if it keeps the
	// locks of its records. pends says that others may see them, keeps that they must not.
	write        *pending.Write
	pends, keeps bool
	// evicted counts expired documents that were removed because others needed
	// their keys, for statistics.
	evicted int64
	// own says that it is about keyspaces of this member alone.
	own bool
	// foreign says that it was decoded: no unit holds its gates.
	foreign bool
}

// effects pools the memory of effects.
var effects = sync.Pool{New: func() any { return new(Effect) }}

// maxKeptNotes and maxKeptOps bound what an effect keeps for the next unit: a number,
// and bytes.
const (
	maxKeptNotes = 1 << 12
	maxKeptOps   = 1 << 20
)

// release returns the memory of an effect that has ended.
func (e *Effect) release() {
	if cap(e.notes) > maxKeptNotes || cap(e.hints) > maxKeptNotes || cap(e.ops.bytes) > maxKeptOps || cap(e.ops.all) > maxKeptNotes {
		return
	}
	clear(e.notes)
	clear(e.dues)
	*e = Effect{notes: e.notes[:0], dues: e.dues[:0], hints: e.hints[:0], ops: operations{all: e.ops.all[:0], bytes: e.ops.bytes[:0]}}
	effects.Put(e)
}

// about is the collection of a note: by the ident of its descriptor, which is
// also that of its records.
type about struct {
	id storage.Ident
	l  *live // nil in a note that was decoded and is not bound
}

// of returns the head of a note about a collection.
func of(c *Collection) about { return about{c.id, c.live} }

// note is a change of live state. Each kind is a type, whose methods are the
// only code that makes the change.
type note interface {
	// kind identifies the type of the note in an encoding.
	kind() noteKind
	// target is the collection that the note is about.
	target() *about
	// alone says that no unit may be inside the collection's gate.
	alone() bool
	// joins says that later effects may become visible together with the note's: the note
	// is not alone, and reads nothing that the store has.
	joins() bool
	// show makes the part of the change that must be visible before the batch.
	show()
	// apply makes the rest, once the batch is visible.
	apply(c *Catalog) error
	// append appends the content of the note, without its kind and collection.
	append(dst []byte) []byte
}

func (a *about) target() *about { return a }

// alone, joins, show and append are the defaults for most notes.
func (a *about) alone() bool              { return false }
func (a *about) joins() bool              { return false }
func (a *about) show()                    {}
func (a *about) append(dst []byte) []byte { return dst }

// note adds a note to the effect.
func (e *Effect) note(n note) { e.notes = append(e.notes, n) }

// noted returns the effect's note of a kind about a collection, or nil.
func noted[N note](e *Effect, l *live, is func(N) bool) (found N, ok bool) {
	for _, n := range e.notes {
		if n, same := n.(N); same && n.target().l == l && (is == nil || is(n)) {
			return n, true
		}
	}
	return found, false
}

// Evaluation returns the state on which the effect was evaluated, which the
// committer gave when its unit began.
func (e *Effect) Evaluation() Evaluation { return e.at }

// evaluate asks the committer for the state on which what follows is evaluated.
func (c *Catalog) evaluate() (at Evaluation) {
	if c.evaluator != nil {
		at = c.evaluator.Evaluate()
	}
	return at
}

// Empty reports whether the effect changes nothing.
func (e *Effect) Empty() bool { return e.u.Empty() && len(e.notes) == 0 }

// Commit applies an effect if there is no log, and returns when it is as
// durable as d asks. Errors: those of Apply, and the cause of ctx's end while it
// waits for the disk.
func (e *Effect) Commit(ctx context.Context, d storage.Durability) error {
	if err := e.Apply(LogPosition{}); err != nil {
		return err
	}
	return e.c.engine.Wait(ctx, d)
}

// LogPosition is the position of an effect in the log of a replicated group: its
// index, from 1 on, and its optime. It is zero if there is no log.
type LogPosition struct{ Index, Term, Time uint64 }

// Apply applies an effect, atomically, and ends its unit: with ApplyAll it is the only
// code that changes live state after a commit (invariant effect).
//
// Decoded effects are applied by one caller at a time, in the order of the log; one
// changes nothing where at is not above the engine's Applied. After an error, that
// of the disk or ErrCorruption, this member cannot continue.
func (e *Effect) Apply(at LogPosition) error {
	defer e.u.Abort()
	if !e.foreign {
		return e.apply(at)
	}
	if at.Index > 0 && at.Index <= e.c.engine.Applied() {
		return nil
	}
	if err := e.bind(); err != nil {
		return err
	}
	leave := enter(e)
	err := e.apply(at)
	leave()
	for _, n := range e.notes {
		if n, ok := n.(*databaseNote); ok && err == nil {
			_, err = e.c.dropOwn(context.Background(), n.db)
		}
	}
	return err
}

func (e *Effect) apply(at LogPosition) error {
	e.c.shows(at)
	if err := e.show(at); err != nil {
		return err
	}
	if err := e.store(at.Index); err != nil {
		return err
	}
	return e.shown()
}

// shows notes that readers may see all up to a position from here on.
func (c *Catalog) shows(at LogPosition) {
	if at.Index > 0 {
		c.showing.Store(&at)
	}
}

// Shown returns the position of the last effect of the log that readers may have seen; zero
// for none since the catalog was opened. Its entry may still be being applied.
func (c *Catalog) Shown() LogPosition {
	if at := c.showing.Load(); at != nil {
		return *at
	}
	return LogPosition{}
}

// show does what must be done before the batch is visible.
func (e *Effect) show(at LogPosition) error {
	for i := range e.dues {
		e.dues[i].show()
	}
	for _, n := range e.notes {
		n.show()
		if d, is := n.(*decidedNote); is {
			d.index = at.Index
		}
	}
	if e.executed != nil {
		if err := e.executed.write(e.u, at); err != nil {
			return err
		}
	}
	if e.also != nil {
		if err := e.also.write(e.u, at); err != nil {
			return err
		}
	}
	if e.prepared != nil {
		return e.prepared.write(e.u, at)
	}
	return nil
}

// shown does the rest, once the batch is visible.
func (e *Effect) shown() error {
	for _, n := range e.notes {
		if err := n.apply(e.c); err != nil {
			return err
		}
	}
	e.c.staged.Book()
	for _, h := range e.hints {
		e.c.hints.put(h.hash, h.window)
	}
	if slices.ContainsFunc(e.notes, changesTTL) {
		e.c.ttlChanged()
	}
	if e.pends {
		e.c.pending.Resolve(e.write, nil)
	}
	return nil
}

// bind finds the collections of a decoded effect. One that it creates is found
// when its descriptor is there.
func (e *Effect) bind() error {
	for i := range e.dues {
		e.dues[i].l = e.c.liveOf(e.dues[i].id)
	}
	for _, n := range e.notes {
		n.target().l = e.c.liveOf(n.target().id)
	}
	return e.u.Bind(func(id storage.Ident) *storage.Counter {
		l := e.c.liveOf(id)
		switch {
		case l == nil:
			return nil
		case l.id == id:
			return l.counter
		}
		return l.measurements.Counter()
	})
}

// enter closes the gates of the collections that decoded effects change by DDL, and enters
// the others, as their units did on the member that evaluated them.
func enter(effects ...*Effect) (leave func()) {
	type entered struct {
		l     *live
		alone bool
	}
	var lives []entered
	add := func(a *about, alone bool) {
		if a.l == nil {
			return
		}
		i := slices.IndexFunc(lives, func(at entered) bool { return at.l == a.l })
		if i < 0 {
			lives = append(lives, entered{a.l, alone})
		} else {
			lives[i].alone = lives[i].alone || alone
		}
	}
	var c *Catalog
	ddl := false
	for _, e := range effects {
		c = e.c
		for i := range e.dues {
			add(&e.dues[i].about, false)
		}
		for _, n := range e.notes {
			add(n.target(), n.alone())
			ddl = ddl || isDDL(n)
		}
	}
	slices.SortFunc(lives, func(a, b entered) int { return cmp.Compare(a.l.id, b.l.id) })
	for _, at := range lives {
		if at.alone {
			at.l.gate.Lock()
		} else {
			_ = at.l.gate.RLock(context.Background()) // a committed effect waits as long as it takes
		}
	}
	if ddl {
		_ = c.ddl.take(context.Background())
	}
	return func() {
		if ddl {
			c.ddl.leave()
		}
		for _, at := range lives {
			if at.alone {
				at.l.gate.Unlock()
			} else {
				at.l.gate.RUnlock()
			}
		}
	}
}

// begin starts the effect of a change to a collection other than a write of
// documents, whose evaluation has begun already.
func (c *Catalog) begin(coll *Collection, at Evaluation) *Effect {
	e := &Effect{c: c, u: c.engine.Begin(), own: coll.own(), at: at}
	e.ops.on = c.operations && !e.own
	return e
}

// untilEnd is the key of a context's value.
type untilEnd struct{}

// UntilEnd returns a context under which nothing is committed once it has ended, be it a unit
// or DDL that was begun before. Under others what is being committed when they end is.
func UntilEnd(ctx context.Context) context.Context { return context.WithValue(ctx, untilEnd{}, true) }

// commit seals an effect and passes it to the committer or, for keyspaces of this
// member alone, to the engine. The effect must not be used afterwards. Errors:
// 14031, the committer's, and the cause of ctx's end (UntilEnd).
func (c *Catalog) commit(ctx context.Context, e *Effect, d storage.Durability) error {
	defer e.u.Abort()
	if ctx.Err() != nil && ctx.Value(untilEnd{}) != nil {
		return context.Cause(ctx)
	}
	if err := e.u.Seal(); err != nil {
		return err
	}
	if e.own {
		return e.Commit(ctx, d)
	}
	if e.write != nil && !e.keeps {
		e.pends = c.pending.Add(e.write, e.at)
	}
	err := c.committer.Commit(ctx, e, d)
	if e.pends && err != nil {
		c.pending.Resolve(e.write, err)
	}
	return err
}

// liveOf finds the live state of a collection, by the ident of its descriptor
// or of its open measurements; nil if there is none.
func (c *Catalog) liveOf(id storage.Ident) *live {
	c.listed.RLock()
	defer c.listed.RUnlock()
	return c.listed.lives[id]
}
