package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/timeseries"
)

// insertRun runs the inserts at the beginning of list, if they are into one
// time-series collection, together, as an insert command does. It returns how
// many statements it has answered, 0 if they are not such inserts, and
// whether one failed, and because of a stale route. i is the index of the first.
func (b *bulk) insertRun(ctx context.Context, i int, list []bulkStatement, ordered bool) (n int, failed, stale bool, err error) {
	space := list[0].space
	for n < len(list) && n < measurementUnitDocs && list[n].kind == "insert" && list[n].space == space && !b.try.has(i+n) {
		n++
	}
	if n < 2 || b.op.MayWrite(space.DB) != nil {
		return 0, false, false, nil
	}
	if c := b.n.Catalog.Lookup(namespace(&space.Op)); c == nil || !c.IsTimeseries() || b.n.checkUUID(space.DB, space.Collection, c, space.expected) != nil {
		return 0, false, false, nil
	}
	c, err := b.n.forWrite(ctx, &space.Op, true)
	if err != nil || !c.IsTimeseries() {
		return 0, false, false, nil // it fails again, for each statement
	}
	outcomes, err := b.insertTogether(ctx, i, c, list[:n], ordered)
	if err != nil {
		return 0, true, false, err
	}
	for k, err := range outcomes {
		if err != nil {
			failed, stale = true, stale || endsBatch(false, err)
			b.fail(i+k, "insert", err)
			continue
		}
		b.op.CountInserts(1)
		b.countInsert(i + k)
	}
	return len(outcomes), failed, stale, nil
}

// insertTogether inserts as many measurements as one unit takes, and returns
// the outcome of each; if they are ordered, of none after the first that
// failed.
func (b *bulk) insertTogether(ctx context.Context, i int, c *catalog.Collection, list []bulkStatement, ordered bool) ([]error, error) {
	outcomes := make([]error, 0, len(list))
	var ms []timeseries.Measurement
	var places []int
	bytes := 0
	now := b.n.stamp(&b.op.Args)
	for k := range list {
		doc, err := schema.PrepareInsert(list[k].args.Doc("document"), now)
		var m timeseries.Measurement
		if err == nil {
			m, err = timeseries.NewMeasurement(doc, c.Settings.Timeseries)
		}
		outcomes = append(outcomes, err)
		if err == nil {
			ms, places, bytes = append(ms, m), append(places, k), bytes+len(m.Doc)
		}
		if err != nil && ordered || bytes >= measurementUnitBytes {
			break
		}
	}
	if len(ms) == 0 {
		return outcomes, nil
	}
	err := b.w.InsertMeasurements(ctx, c, ms)
	if err == nil {
		for _, k := range places {
			b.try.did(retryable.Inserted, i+k, nil)
		}
		return outcomes, nil
	}
	if err := fails(ctx, b.op, err); err != nil {
		return nil, err
	}
	if endsBatch(false, err) {
		outcomes[places[0]] = err
		return outcomes[:places[0]+1], nil
	}
	for k := range ms {
		one := b.w.InsertMeasurements(ctx, c, ms[k:k+1])
		if one == nil {
			b.try.did(retryable.Inserted, i+places[k], nil)
		} else if err := fails(ctx, b.op, one); err != nil {
			return nil, err
		}
		if outcomes[places[k]] = one; one != nil && endsBatch(ordered, one) {
			return outcomes[:places[k]+1], nil
		}
	}
	return outcomes, nil
}
