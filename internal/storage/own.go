package storage

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"
)

// ownBatchBytes is how much TakeOwn copies in one unit.
const ownBatchBytes = 4 << 20

// TakeOwn replaces the keyspaces that belong to one member alone (FirstOwnIdent) in
// this store by those of another store: so a store that came from another member
// becomes this member's. It takes one state of the other store, and is durable on return.
// Nobody else may use this store during the call; after an error it must not be used.
func (e *Engine) TakeOwn(from *Engine) (err error) {
	state := from.db.NewSnapshot()
	defer func() { err = errors.Join(err, state.Close()) }()
	own := AppendIdent(nil, FirstOwnIdent)
	ranges := [][2][]byte{{own, {0xff}}} // no ident begins with it
	for _, id := range []Ident{IdentCounters, IdentCatalog, IdentMultikey, IdentWindows} {
		ranges = append(ranges, [2][]byte{appendKey(nil, id, own), AppendIdent(nil, id+1)})
	}
	next := keysNextIdent[OwnIdents]
	ranges = append(ranges, [2][]byte{next, append(append([]byte(nil), next...), 0)})
	for _, r := range ranges {
		if err := e.takeRange(state, r[0], r[1]); err != nil {
			return mapError(err)
		}
	}
	e.views.commits.Add(1)
	if err := e.loadMeta(); err != nil {
		return err
	}
	return e.Sync(context.Background())
}

// takeRange replaces the store's keys in [lower, upper) by those of another one's state.
func (e *Engine) takeRange(from *pebble.Snapshot, lower, upper []byte) (err error) {
	it, err := from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	b := e.db.NewBatch()
	defer func() { b.Close() }()
	if err := b.DeleteRange(lower, upper, nil); err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := b.Set(it.Key(), v, nil); err != nil {
			return err
		}
		if b.Len() < ownBatchBytes {
			continue
		}
		if err := e.db.Apply(b, pebble.Sync); err != nil {
			return err
		}
		b.Close()
		b = e.db.NewBatch()
	}
	return e.db.Apply(b, pebble.Sync)
}

// LeaveGroup removes what the store has of a replicated group: its log, hard state and
// members, the place in the log, and transactions that are prepared. It is durable on return.
// Nobody else may use the store during the call; it is to be opened anew afterwards.
func (e *Engine) LeaveGroup() error {
	b := e.db.NewBatch()
	defer b.Close()
	for _, id := range []Ident{IdentRaft, IdentPrepared} {
		if err := b.DeleteRange(AppendIdent(nil, id), AppendIdent(nil, id+1), nil); err != nil {
			return mapError(err)
		}
	}
	if err := b.Delete(keyApplied, nil); err != nil {
		return mapError(err)
	}
	if err := e.db.Apply(b, pebble.Sync); err != nil {
		return mapError(err)
	}
	e.applied.Store(0)
	return e.Sync(context.Background())
}
