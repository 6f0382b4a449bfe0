package measurements

import (
	"bytes"

	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// Salvage takes the records of a table's keyspace from a store that may be damaged, in
// the order of their keys. The progress of flushing comes after the staged
// measurements, so these are passed on last, by End.
type Salvage struct {
	staged   []record
	progress Progress
}

type record struct{ key, value []byte }

// Add calls take with a record, which is the caller's to keep, unless it waits for
// End. ok is false for what is not a record.
func (s *Salvage) Add(key, value []byte, take func(key, value []byte) error) (ok bool, err error) {
	switch {
	case len(key) == 0:
		return false, nil
	case key[0] == progressKey:
		if p, err := decodeProgress(value); err == nil {
			s.progress = p
		}
		return true, nil
	case isStaged(key):
		s.staged = append(s.staged, record{bytes.Clone(key), bytes.Clone(value)})
		return true, nil
	}
	return true, take(key, bytes.Clone(value))
}

// End calls take with the records of staged measurements.
func (s *Salvage) End(take func(key, value []byte) error) error {
	for _, r := range s.staged {
		if err := take(r.key, r.value); err != nil {
			return err
		}
	}
	return nil
}

// Measurements lists those of a record whose documents are valid, without staged
// ones that were flushed. Where the record is damaged, it returns those before that
// with an error. They share the record's bytes.
func (s *Salvage) Measurements(key, value []byte, o *schema.Timeseries, valid func(timeseries.Measurement) error) (ms []timeseries.Measurement, err error) {
	err = s.progress.each(key, value, o, func(_ []byte, m timeseries.Measurement) error {
		if err := valid(m); err != nil {
			return err
		}
		ms = append(ms, m)
		return nil
	})
	return ms, err
}
