package repl

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/storage"
	"go.etcd.io/raft/v3/raftpb"
)

// incomingDir is where, in a server's directory, a snapshot is received.
const incomingDir = "incoming"

// Effects apply the writes of entries to an open store: on a member, its catalog.
type Effects interface {
	// Apply makes the effects of payloads visible, in their order, and the last index the
	// engine's Applied: in steps of which each has some effects and their index.
	Apply(run []Change) error
	// Close releases the store, which is about to be replaced.
	Close() error
}

// StoreOptions open a Store.
type StoreOptions struct {
	FS    storage.FS
	Dir   string // of the server
	Group Number
	// Open opens the store in a directory.
	Open func(dir string) (*storage.Engine, error)
	// Effects opens what applies writes to the store.
	Effects func(*storage.Engine) (Effects, error)
}

// Store is the data of one member of one group: log and machine in one engine, which a
// snapshot from another member may replace.
type Store struct {
	*EngineLog
	opts    StoreOptions
	engine  *storage.Engine
	effects Effects
	id      uint64
	// partsTerm is the term of the parts of a chain that are there; 0 for none.
	partsTerm uint64
	// copying is held while another goroutine than the member's copies the engine, and
	// while the engine is replaced.
	copying sync.Mutex
}

// OpenStore opens a member's data, and creates it if there is none. New data gets a
// new raft id, as promises made by a lost directory must never be attributed to this
// one (rule 13).
func OpenStore(o StoreOptions) (*Store, error) {
	place, err := storage.Place(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	s := &Store{opts: o}
	if err := s.open(place); err != nil {
		return nil, err
	}
	if err := errors.Join(storage.RemoveOldPlaces(o.FS, o.Dir), s.removeOutgoing()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// outgoingPrefix begins the names of directories with an outgoing snapshot.
const outgoingPrefix = "outgoing-"

// removeOutgoing removes snapshots that a process was sending when it died.
func (s *Store) removeOutgoing() error {
	list, err := s.opts.FS.List(s.opts.Dir)
	if err != nil {
		return err
	}
	for _, name := range list {
		if strings.HasPrefix(name, outgoingPrefix) {
			err = errors.Join(err, s.opts.FS.RemoveAll(s.opts.FS.PathJoin(s.opts.Dir, name)))
		}
	}
	return err
}

func (s *Store) open(place string) (err error) {
	if s.engine, err = s.opts.Open(place); err != nil {
		return err
	}
	if s.EngineLog, err = OpenLog(s.engine, s.opts.Group); err == nil {
		if err = errors.Join(s.identify(), s.findParts()); err == nil {
			s.effects, err = s.opts.Effects(s.engine)
		}
	}
	if err != nil {
		return errors.Join(err, s.engine.Close())
	}
	return nil
}

// identify reads the raft id of the data, or assigns one.
func (s *Store) identify() error {
	key := groupKey(s.opts.Group, keyIdentity)
	if err := getKey(s.engine, key, func(v []byte) error {
		if len(v) != 8 {
			return fmt.Errorf("%w: raft id is %x", storage.ErrCorruption, v)
		}
		s.id = binary.BigEndian.Uint64(v)
		return nil
	}); err != nil || s.id != 0 {
		return err
	}
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	s.id = binary.BigEndian.Uint64(b[:])&^(1<<63) | 1 // fits BSON's long, and is not a number that raft reserves
	return s.setOwn(s.engine, nil)
}

// setOwn stores the raft id, and further keys in the same step.
func (s *Store) setOwn(e *storage.Engine, more func(u *storage.Unit) error) error {
	u := e.Begin()
	defer u.Abort()
	if err := u.Set(storage.IdentRaft, groupKey(s.opts.Group, keyIdentity), binary.BigEndian.AppendUint64(nil, s.id)); err != nil {
		return err
	}
	if more != nil {
		if err := more(u); err != nil {
			return err
		}
	}
	return u.Commit(context.Background(), storage.Journaled)
}

// ID returns the raft id of the data.
func (s *Store) ID() uint64 { return s.id }

// Engine returns the open store; Install replaces it.
func (s *Store) Engine() *storage.Engine { return s.engine }

// Close closes the store.
func (s *Store) Close() error { return errors.Join(s.effects.Close(), s.engine.Close()) }

// Applied implements Machine.
func (s *Store) Applied() (uint64, []byte, error) { return applied(s.engine, s.opts.Group) }

func applied(e *storage.Engine, group Number) (index uint64, state []byte, err error) {
	err = getKey(e, groupKey(group, keyState), func(v []byte) error {
		state = append([]byte(nil), v...)
		return nil
	})
	return e.Applied(), state, err
}

// Apply implements Machine.
func (s *Store) Apply(run []Change) error {
	switch c := &run[0]; {
	case c.Part != nil:
		return s.applyPart(c.At, c.Part)
	case c.Chain != nil:
		return s.applyChain(*c)
	case c.State == nil:
		if err := s.dropLost(run[len(run)-1].At.Term); err != nil {
			return err
		}
		return s.effects.Apply(run)
	}
	if err := invariant.Require(len(run) == 1, "repl: a change of the group's state is applied alone"); err != nil {
		return err
	}
	u := s.engine.Begin()
	defer u.Abort()
	if err := u.Set(storage.IdentRaft, groupKey(s.opts.Group, keyState), run[0].State); err != nil {
		return err
	}
	u.Frees() // what the set has committed is written even on a full disk
	if err := u.Seal(); err != nil {
		return err
	}
	return u.Apply(run[0].At.Index)
}

// Found implements Founder.
func (s *Store) Found(at Position, hard *raftpb.HardState, state []byte) error {
	u := s.engine.Begin()
	defer u.Abort()
	if err := errors.Join(
		setBase(u, s.opts.Group, at, 0), setHard(u, s.opts.Group, hard),
		u.Set(storage.IdentRaft, groupKey(s.opts.Group, keyState), state)); err != nil {
		return err
	}
	if err := u.Seal(); err != nil {
		return err
	}
	if err := u.Apply(at.Index); err != nil {
		return err
	}
	s.base, s.last, s.hard, s.upToBase, s.upToLast = at, at.Index, hard, 0, 0
	return s.engine.Sync(context.Background())
}

// Install implements Machine. The snapshot is in incomingDir, complete and checked;
// what belongs to the sender alone is removed from it first (rule 16); then one
// rename makes it this member's data (rule 15).
func (s *Store) Install(base Position, hard *raftpb.HardState) error {
	incoming := s.opts.FS.PathJoin(s.opts.Dir, incomingDir)
	if err := s.effects.Close(); err != nil { // what operations write from here on would be lost
		return err
	}
	if err := s.adopt(incoming, base, hard); err != nil {
		return err
	}
	s.copying.Lock()
	defer s.copying.Unlock()
	if err := s.engine.Close(); err != nil {
		return err
	}
	place, err := storage.Switch(s.opts.FS, s.opts.Dir, incoming)
	if err != nil {
		return err
	}
	if err := s.open(place); err != nil {
		return err
	}
	return storage.RemoveOldPlaces(s.opts.FS, s.opts.Dir)
}

// flushPatience bounds how long a copy waits for memtables to become tables: their log is
// copied else, which takes longer here and must be replayed there.
const flushPatience = 10 * time.Second

// keptBehind is how many entries a copy keeps before those that it needs: entries of raft's own
// have no time, and the time of the last one is looked for before it (position).
const keptBehind = 1024

// copyTo makes a copy of the store in a directory, which is replaced, for another member.
// It may leave out the part of the log before an entry. Any goroutine may call it.
func (s *Store) copyTo(ctx context.Context, dir string, below uint64) error {
	if err := s.opts.FS.RemoveAll(dir); err != nil {
		return err
	}
	s.copying.Lock()
	flushed, err := s.engine.StartFlush()
	s.copying.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-flushed:
	case <-time.After(flushPatience):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.copying.Lock()
	defer s.copying.Unlock()
	return s.engine.CheckpointWithout(dir, storage.IdentRaft, entryKey(s.opts.Group, 0), entryKey(s.opts.Group, below-min(below, keptBehind)))
}

// room returns by how many bytes the free space exceeds the limit at which writes fail.
// Any goroutine may call it.
func (s *Store) room() int64 {
	s.copying.Lock()
	defer s.copying.Unlock()
	return s.engine.Room()
}

// adopt turns a received store into this member's.
func (s *Store) adopt(dir string, base Position, hard *raftpb.HardState) (err error) {
	e, err := s.opts.Open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	if e.Applied() != base.Index {
		return fmt.Errorf("the received snapshot ends with entry %d, not %d", e.Applied(), base.Index)
	}
	theirs, err := OpenLog(e, s.opts.Group)
	if err != nil {
		return err
	}
	if base, err = position(theirs, base.Index); err != nil {
		return err
	}
	upTo, err := theirs.bytesUpTo(base.Index)
	if err != nil {
		return err
	}
	if err := s.setOwn(e, func(u *storage.Unit) error {
		return errors.Join(
			u.DeleteRange(storage.IdentRaft, groupKey(s.opts.Group, keyEntry), groupKey(s.opts.Group, keyEntry+1)),
			setBase(u, s.opts.Group, base, upTo),
			setHard(u, s.opts.Group, hard))
	}); err != nil {
		return err
	}
	return e.TakeOwn(s.engine)
}

// received returns what a snapshot in incomingDir is: its position, raft's members at
// that time, and the configuration of its set.
func (s *Store) received() (meta *raftpb.SnapshotMetadata, config *Config, err error) {
	e, err := s.opts.Open(s.opts.FS.PathJoin(s.opts.Dir, incomingDir))
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	index, b, err := applied(e, s.opts.Group)
	if err != nil {
		return nil, nil, err
	}
	state, err := decodeGroupState(b)
	if err != nil {
		return nil, nil, err
	}
	theirs, err := OpenLog(e, s.opts.Group)
	if err != nil {
		return nil, nil, err
	}
	term, err := theirs.Term(index)
	return &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: state.conf}, state.config, err
}
