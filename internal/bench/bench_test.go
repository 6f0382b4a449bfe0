package bench

import (
	"encoding/json"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestDocument(t *testing.T) {
	d := document(7, 12345, padding)
	if err := d.Validate(); err != nil || len(d) != documentBytes {
		t.Fatalf("%d bytes: %v", len(d), err)
	}
	var asJSON struct {
		ID  int64 `json:"_id"`
		K   int64
		Due int64
		Pad string
	}
	if err := json.Unmarshal(jsonDocument(7, 12345, padding), &asJSON); err != nil {
		t.Fatal(err)
	}
	if asJSON.ID != d.Lookup("_id").Int64() || asJSON.K != d.Lookup("k").Int64() || asJSON.Due != d.Lookup("due").DateTime() ||
		asJSON.Pad != d.Lookup("pad").StringValue() {
		t.Fatalf("%+v is not %s", asJSON, d)
	}
	if d.Lookup("n").Type != bson.TypeInt64 {
		t.Fatal("n is no counter")
	}
}

// TestRaw runs every row on Pebble alone, and its expiry.
func TestRaw(t *testing.T) {
	o := Default()
	o.CacheGB = 0.01
	r, err := openRaw(t.TempDir(), &o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	ctx, data := t.Context(), newDataset(1000)
	if err := fill(ctx, r, 0, 1000, never); err != nil {
		t.Fatal(err)
	}
	if err := data.reserve(ctx, r, 2000); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		// The index of a thousand documents ends before any place in it has a
		// hundred more.
		if row.name == "range100Index" {
			continue
		}
		m, err := measure(ctx, r, data, row, 2, 5*time.Millisecond)
		if err != nil || m.ops == 0 && !row.consumes {
			t.Errorf("%s: %+v %v", row.name, m, err)
		}
	}
	if err := fillDue(ctx, r, layout{Due: true}, liveDocuments, 2500); err != nil {
		t.Fatal(err)
	}
	gone := int64(0)
	if err := r.expire(ctx, 2500, func(n int64) { gone = n }); err != nil || gone != 2500 {
		t.Fatal(gone, err)
	}
}

// TestPrototype holds that what the bare group answers is on the disks of two members.
func TestPrototype(t *testing.T) {
	p, err := startPrototype(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const proposers, each = 8, 25
	if err := parallel(proposers, func(int) error {
		for range each {
			if err := p.propose(t.Context(), make([]byte, documentBytes)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	have := 0
	for _, m := range p.members {
		last, err := m.log.LastIndex()
		if err != nil {
			t.Fatal(err)
		}
		_, closer, err := m.db.Get(bareKey('l', proposers*each))
		if err != nil {
			continue
		}
		if closer.Close(); last >= proposers*each {
			have++
		}
	}
	if err := p.close(); err != nil || have < 2 {
		t.Fatalf("%d members have all entries: %v", have, err)
	}
}

func TestChooseRows(t *testing.T) {
	chosen, err := chooseRows("findById,expiry,lookup")
	if err != nil || !chosen.expiry || len(chosen.rows) != 1 || chosen.rows[0].name != "findById" || len(chosen.questions) != 1 {
		t.Fatal(chosen, err)
	}
	if _, err := chooseRows("nothing"); err == nil {
		t.Fatal("a row that does not exist was taken")
	}
}

func TestPercentiles(t *testing.T) {
	var took []time.Duration
	for i := range 1000 {
		took = append(took, time.Duration((i*7)%1000))
	}
	if p50, p99 := percentiles(took); p50 != 500 || p99 != 990 {
		t.Fatal(p50, p99)
	}
}
