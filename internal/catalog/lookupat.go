package catalog

import (
	"bytes"
	"errors"

	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// LookupAt returns the descriptor for reading a collection in an earlier state of the
// store: now is what Lookup finds, or nil. It returns nil if there was none of
// that name. Errors: 246 if the name was that of another collection, the
// collection had other indexes or options, its documents are not all in the store, or it is
// sharded, and this shard did not have it.
func (c *Catalog) LookupAt(ns schema.Namespace, now *Collection, s storage.Reader) (*Collection, error) {
	if now != nil {
		if err := now.readableAt(); err != nil {
			return nil, err
		}
		was, err := storedDescriptor(s, now.id)
		if err != nil {
			return nil, err
		}
		is, err := storedDescriptor(c.engine, now.id)
		switch {
		case err != nil:
			return nil, err
		case was != nil && bytes.Equal(was, is):
			return now, nil
		case was != nil, now.sharding != nil: // or a shard has got its first range since: others had the documents
			return nil, errChangedSince(ns)
		}
	}
	all, err := readDescriptors(s)
	if err != nil {
		return nil, err
	}
	for _, coll := range all {
		if coll.Namespace == ns {
			return nil, errChangedSince(ns)
		}
	}
	return nil, nil
}

// readableAt refuses collections that are not all in a state of the store.
func (c *Collection) readableAt() error {
	kind := ""
	switch {
	case c.virtual != nil || c.Capped:
		kind = "capped collections"
	case c.own():
		kind = "collections that are not replicated"
	case c.IsTimeseries() || c.HoldsBuckets():
		kind = "time-series collections"
	default:
		return nil
	}
	return mongoerr.New(mongoerr.SnapshotUnavailable, "Reading from %s with readConcern snapshot is not supported", kind)
}

func errChangedSince(ns schema.Namespace) error {
	return mongoerr.New(mongoerr.SnapshotUnavailable, "Unable to read from a snapshot due to pending collection catalog changes to collection '%s'; please retry the operation.", ns)
}

// storedDescriptor returns a descriptor as it is stored; nil for none.
func storedDescriptor(r storage.Reader, id storage.Ident) ([]byte, error) {
	v, closer, err := r.Get(storage.IdentCatalog, identKey(id))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return bytes.Clone(v), closer.Close()
}

// Lay lays an effect, as the log has it, over an earlier state of the store: what it does to
// records, entries and prepared transactions there, not to sessions. Errors:
// storage.ErrTooMuchLaid, ErrCorruption.
func (c *Catalog) Lay(s *storage.LaidState, payload []byte, at LogPosition) error {
	e, err := c.Decode(payload)
	if err != nil {
		return err
	}
	defer e.u.Abort()
	if err := s.Lay(e.u.Batch(), at.Index); err != nil {
		return err
	}
	if n := e.prepared; n != nil {
		n.head.time = at.Time
		return s.Set(storage.IdentPrepared, retryable.AppendKey(nil, n.session, 0), n.head.append(nil))
	}
	return nil
}
