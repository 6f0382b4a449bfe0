package catalog

import (
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/storage"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// stored runs the commands of testdata/stored, which holds the bytes of keys and
// values as they lie on disk (docs/format):
//
//	measure c=NS   adds readings, one a line; freeze and flush move what is staged,
//	               seal makes buckets of what is open
//	expire c=NS    drops the windows that are due at a date; sweep removes the
//	               entries of what went with them
//	stored         all keys and values that are new or others since the last time,
//	               and the keys that are gone. What chance made, a UUID or the rest of
//	               an ObjectId, is zero.
func (s *script) stored(t *testing.T, coll *Collection, d *datadriven.TestData) string {
	ctx := t.Context()
	switch d.Cmd {
	case "measure":
		var ms []timeseries.Measurement
		for line := range strings.Lines(d.Input) {
			m, err := timeseries.NewMeasurement(parse(t, line), coll.Settings.Timeseries)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			ms = append(ms, m)
		}
		return outcome(s.c.Run(ctx, storage.Buffered, func(u *Unit) error { return u.InsertMeasurements(ctx, coll, ms) }))
	case "freeze":
		return outcome(coll.live.measurements.Freeze(ctx, s.c.runIn(coll)))
	case "flush":
		return outcome(s.c.FlushStaged(ctx, coll))
	case "seal":
		return outcome(s.c.SealAll(ctx, coll))
	case "expire":
		_, err := s.c.DropWindows(ctx, coll, Drop{Rule: coll.Rules()[0], Now: bson.MustParseValue(d.Input).Date()})
		return outcome(err)
	case "sweep":
		_, err := s.c.Sweep(ctx, coll, func(time.Duration) error { return nil })
		return outcome(err)
	}
	chance := s.chance(t)
	now := map[string]string{}
	var b strings.Builder
	if err := s.c.engine.EachKey(func(id storage.Ident, key, value []byte) error {
		where := chance.Replace(fmt.Sprintf("%d %x", id, key))
		what := chance.Replace(hex.EncodeToString(value))
		if now[where] = what; s.dumped[where] != what {
			fmt.Fprintf(&b, "%s\n    %s\n", where, what)
		}
		return nil
	}); err != nil {
		d.Fatalf(t, "%v", err)
	}
	for _, where := range slices.Sorted(maps.Keys(s.dumped)) {
		if _, ok := now[where]; !ok {
			fmt.Fprintf(&b, "gone %s\n", where)
		}
	}
	s.dumped = now
	return b.String()
}

// chance replaces what is another each time.
func (s *script) chance(t *testing.T) *strings.Replacer {
	var pairs []string
	for _, db := range s.c.Databases() {
		for _, c := range s.c.Collections(db) {
			pairs = append(pairs, hex.EncodeToString(c.UUID[:]), strings.Repeat("00", len(c.UUID)))
			if !c.IsTimeseries() {
				continue
			}
			_, buckets := records(t, s.c.engine, c)
			for _, b := range buckets {
				id := hex.EncodeToString(b.Lookup("_id").Data)
				pairs = append(pairs, id, id[:8]+strings.Repeat("0", len(id)-8))
			}
		}
	}
	return strings.NewReplacer(pairs...)
}
