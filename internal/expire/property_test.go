package expire

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/schema"
)

// TestNothingEarlyNothingLate draws rules, documents, updates, changes of rules, indexes
// that go and come again, relayouts there and back which take their time, jumps of the
// clock and restarts, and holds after every step that no document is gone
// that is not due, and that nothing due is left once a pass has gone by; where
// what is due is hidden, that it is not seen.
func TestNothingEarlyNothingLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(untimed{t}, func(rt *rapid.T) {
			p := newTrial(t, rt)
			defer p.w.close()
			for range rapid.IntRange(1, 25).Draw(rt, "steps") {
				p.step()
				p.look()
			}
			p.straighten()
			time.Sleep(3 * time.Minute) // relayouts end
			p.pass()
			p.look()
		})
	})
}

// untimed hides the deadline of a test, which virtual time does not have.
type untimed struct{ testing.TB }

// trial is one collection d.c, and what it should be.
type trial struct {
	rt        *rapid.T
	w         *world
	immediate bool
	partial   bool             // the rule b holds for documents with x < partialBound
	seconds   map[string]int64 // of each rule, by its index
	were      map[string]int64 // before the last step
	paused    map[string]bool
	part      int64         // of relayouts, in bytes
	runs      int64         // relayouts that had ended at the last look
	rest      time.Duration // after each of their steps
	docs      map[int32]bson.Doc
	written   map[int32]int64 // milliseconds since 1970
	spike     time.Duration   // what the clock is off by, for the moment
	passed    time.Time       // when the last pass ended, at the latest
}

// trialName is the collection of a trial.
var trialName = schema.Namespace{DB: "d", Coll: "c"}

// partialBound is where the filter of a partial rule ends.
const partialBound = 3

// notDefault is the seconds of a rule by last writes without a default.
const notDefault = -1

func newTrial(t *testing.T, rt *rapid.T) *trial {
	p := &trial{rt: rt, w: newWorld(t), seconds: map[string]int64{}, paused: map[string]bool{}, docs: map[int32]bson.Doc{}, written: map[int32]int64{}}
	p.immediate = rapid.Bool().Draw(rt, "immediate")
	visibility := "deferred"
	if p.immediate {
		visibility = "immediate"
	}
	p.w.cat.NoWindows.Store(!rapid.SampledFrom([]bool{true, true, true, false}).Draw(rt, "windows"))
	p.rest = time.Duration(rapid.SampledFrom([]int{10_000, 20_000, 100, 0}).Draw(rt, "rest")) * time.Millisecond
	p.part = rapid.SampledFrom([]int64{1, 200, relayPartBytes}).Draw(rt, "part")
	p.tune()
	p.partial = rapid.Bool().Draw(rt, "partial")
	p.run(`{create: "c", storageEngine: {mayfly: {expiry: {visibility: %q}}}}`, visibility)
	rules := []string{"a", "b", "_ts"}
	if rapid.SampledFrom([]bool{true, true, false}).Draw(rt, "filled") { // without a rule whose documents have what it makes itself
		rules = rules[:2]
		for range rapid.IntRange(1, 8).Draw(rt, "before") {
			p.put()
		}
	}
	for _, field := range rapid.SliceOfNDistinct(rapid.SampledFrom(rules), 1, len(rules), rapid.ID).Draw(rt, "rules") {
		p.seconds[field] = p.drawSeconds(field)
		p.index(field)
	}
	p.passed = time.Now()
	return p
}

// index makes the index of a rule.
func (p *trial) index(field string) {
	direction, more := 1, ""
	if field == "b" {
		direction = -1
		if p.partial {
			more = fmt.Sprintf(`, partialFilterExpression: {x: {$lt: %d}}`, partialBound)
		}
	}
	if field == "_ts" {
		more = `, storageEngine: {mayfly: {expiry: {by: "lastWrite"}}}`
	}
	p.run(`{createIndexes: "c", indexes: [{key: {%s: %d}, name: %q, expireAfterSeconds: %d%s}]}`, field, direction, field, p.seconds[field], more)
}

// tune has few documents be enough for a relayout, which takes its time.
func (p *trial) tune() {
	r := p.w.m.relays
	r.least, r.part = 1, p.part
	r.rest.Store(int64(p.rest))
}

func (p *trial) drawSeconds(field string) int64 {
	least := int64(0)
	if field == "_ts" {
		least = notDefault
	}
	return rapid.Int64Range(least, 200).Draw(p.rt, "seconds")
}

func (p *trial) run(format string, args ...any) bson.Doc {
	return p.w.must(bson.MustParse(fmt.Sprintf(format, args...)))
}

func (p *trial) step() {
	p.were = map[string]int64{}
	for f, s := range p.seconds {
		p.were[f] = s
	}
	switch rapid.SampledFrom([]string{"put", "put", "put", "touch", "delete", "wait", "wait", "pass", "pass", "passes", "collMod", "pause", "index", "relayout", "jump", "restart"}).Draw(p.rt, "step") {
	case "put":
		p.put()
	case "touch":
		id := p.drawID()
		r := p.run(`{update: "c", updates: [{q: {_id: %d}, u: {$inc: {x: 1}}}]}`, id)
		if r.Lookup("n").Int32() == 1 {
			p.docs[id], p.written[id] = p.read(id), p.now()
		}
	case "delete":
		id := p.drawID()
		p.run(`{delete: "c", deletes: [{q: {_id: %d}, limit: 1}]}`, id)
		if p.immediate && p.docs[id] != nil && p.due(p.docs[id], p.seconds) <= p.now() {
			break // it is hidden, and stays until the monitor comes
		}
		delete(p.docs, id)
	case "wait":
		time.Sleep(time.Duration(rapid.Int64Range(1, 50_000).Draw(p.rt, "ms")) * time.Millisecond)
		synctest.Wait()
	case "pass":
		p.pass()
	case "passes": // windows without a rule are given up meanwhile
		time.Sleep(relayBackAfter + time.Duration(rapid.Int64Range(0, 60_000).Draw(p.rt, "ms"))*time.Millisecond)
		synctest.Wait()
	case "index":
		p.dropOrIndex()
	case "relayout":
		p.run(`{setParameter: 1, expiryRelayout: %t, $db: "admin"}`, rapid.Bool().Draw(p.rt, "on"))
	case "collMod":
		field := p.drawRule()
		if field == "" {
			return
		}
		p.seconds[field] = p.drawSeconds(field)
		p.run(`{collMod: "c", index: {name: %q, expireAfterSeconds: %d}}`, field, p.seconds[field])
		p.passed = time.Now()
	case "pause":
		field := p.drawRule()
		if field == "" {
			return
		}
		p.paused[field] = !p.paused[field]
		p.run(`{collMod: "c", index: {name: %q, storageEngine: {mayfly: {expiry: {paused: %t}}}}}`, field, p.paused[field])
		p.passed = time.Now()
	case "restart":
		p.w.restart()
		p.tune()
		p.passed = time.Now()
	case "jump":
		p.straighten()
		p.spike = time.Duration(rapid.Int64Range(-7200, 7200).Draw(p.rt, "jump")) * time.Second
		p.w.wall.off.Store(int64(p.spike))
		time.Sleep(time.Duration(rapid.Int64Range(0, 500).Draw(p.rt, "seconds")) * time.Second)
		synctest.Wait()
		p.look()
		p.straighten()
	}
}

// put writes a whole document.
func (p *trial) put() {
	id := p.drawID()
	p.run(`{update: "c", updates: [{q: {_id: %d}, u: {a: %s, b: %s, ttl: %s, x: 1}, upsert: true}]}`, id, p.drawDate(), p.drawDate(), p.drawTTL())
	p.docs[id], p.written[id] = p.read(id), p.now()
}

// dropOrIndex drops the index of a rule by date, or makes it again. (What another one
// by last writes would count from is not said here.)
func (p *trial) dropOrIndex() {
	field := rapid.SampledFrom([]string{"a", "b"}).Draw(p.rt, "field")
	if _, there := p.seconds[field]; there {
		p.run(`{dropIndexes: "c", index: %q}`, field)
		delete(p.seconds, field)
		delete(p.paused, field)
	} else {
		p.seconds[field] = p.drawSeconds(field)
		p.index(field)
	}
	p.passed = time.Now()
}

// straighten sets the clock right.
func (p *trial) straighten() {
	p.w.wall.off.Store(0)
	p.spike = 0
	p.passed = time.Now()
}

// pass lets a whole pass go by.
func (p *trial) pass() {
	time.Sleep(61 * time.Second)
	synctest.Wait()
}

func (p *trial) drawID() int32 { return rapid.Int32Range(0, 5).Draw(p.rt, "id") }

func (p *trial) drawRule() string {
	var fields []string
	for _, f := range []string{"a", "b", "_ts"} {
		if _, ok := p.seconds[f]; ok {
			fields = append(fields, f)
		}
	}
	if fields == nil {
		return ""
	}
	return rapid.SampledFrom(fields).Draw(p.rt, "rule")
}

// drawDate is a date near to now, an array of such, or no date.
func (p *trial) drawDate() string {
	date := func() string {
		return fmt.Sprintf(`{$date: {$numberLong: "%d"}}`, time.Now().UnixMilli()+rapid.Int64Range(-300_000, 100_000).Draw(p.rt, "date"))
	}
	switch rapid.IntRange(0, 5).Draw(p.rt, "kind") {
	case 0:
		return `"2000-01-01"`
	case 1:
		return fmt.Sprintf(`[%s, 5, %s]`, date(), date())
	case 2:
		return "null"
	}
	return date()
}

func (p *trial) drawTTL() string {
	return rapid.SampledFrom([]string{"null", "-1", "1", "30", "90.0", "90.5", "0", `"30"`}).Draw(p.rt, "ttl")
}

// read returns a document as it is stored: a new one may be hidden at once.
func (p *trial) read(id int32) bson.Doc {
	d := p.find(id)
	if d == nil {
		p.rt.Fatalf("document %d is gone as soon as it is written", id)
	}
	if _, counts := p.seconds["_ts"]; counts {
		now := time.Now().Unix()
		if ts := d.Lookup("_ts").Int64(); ts < now || ts > now+int64(max(0, p.spike/time.Second)) {
			p.rt.Fatalf("%s is marked with another time than %d", d, now)
		}
	}
	return d
}

func (p *trial) now() int64 { return time.Now().UnixMilli() }

// due is when a document is due, by the definition.
func (p *trial) due(d bson.Doc, seconds map[string]int64) int64 {
	due := int64(math.MaxInt64)
	for field, s := range seconds {
		if p.paused[field] || field == "b" && p.partial && bson.ToDouble(d.Lookup("x")) >= partialBound {
			continue
		}
		if field == "_ts" {
			switch v := d.Lookup("ttl"); {
			case v.IsNumber() && bson.ToDouble(v) == -1:
				continue
			case v.IsNumber() && bson.ToDouble(v) >= 1 && bson.ToDouble(v) == math.Trunc(bson.ToDouble(v)):
				s = bson.ClampToInt64(v)
			case s == notDefault:
				continue
			}
			due = min(due, (d.Lookup("_ts").Int64()+s)*1000)
			continue
		}
		values := []bson.Value{d.Lookup(field)}
		if values[0].Type == bson.TypeArray {
			values = values[0].Doc().Slice()
		}
		for _, v := range values {
			if v.Type == bson.TypeDate {
				due = min(due, v.Date()+s*1000)
			}
		}
	}
	return due
}

// relaid says that what is due may wait for a relayout that is under way, or waits for
// the pass after one that has ended.
func (p *trial) relaid() {
	r := p.w.m.Relayouts()
	if runs := r.Lookup("collections").Int64(); r.Lookup("running").Bool() || runs != p.runs {
		p.passed, p.runs = time.Now(), runs
	}
}

// look compares the collection with what it should be.
func (p *trial) look() {
	synctest.Wait() // else what goes meanwhile is seen, and then gone
	p.relaid()
	seen := map[int32]bool{}
	for _, v := range p.run(`{find: "c", batchSize: 100}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Slice() {
		seen[v.Doc().Lookup("_id").Int32()] = true
	}
	if n := p.run(`{count: "c"}`).Lookup("n").Int32(); int(n) != len(seen) {
		p.rt.Fatalf("count is %d, find sees %d", n, len(seen))
	}
	now := p.now()
	for id, d := range p.docs {
		due := min(p.due(d, p.seconds), p.due(d, p.were))
		is := p.due(d, p.seconds)
		switch {
		case !seen[id] && due > now:
			p.rt.Fatalf("%s is gone at %d: it is due at %d", d, now, due)
		case seen[id] && p.immediate && p.spike >= 0 && is <= now:
			p.rt.Fatalf("%s is seen at %d: it is due at %d", d, now, is)
		case seen[id] && p.spike == 0 && is <= now && max(is, p.passed.UnixMilli(), p.written[id]) < now-61_000:
			p.rt.Fatalf("%s is left at %d: it was due at %d", d, now, is)
		}
		if !p.stored(id) {
			delete(p.docs, id)
		} else if p.spike == 0 && is <= now && max(is, p.passed.UnixMilli(), p.written[id]) < now-61_000 {
			p.rt.Fatalf("%s is kept at %d: it was due at %d", d, now, is)
		}
	}
	for id := range seen {
		if p.docs[id] == nil {
			p.rt.Fatalf("document %d is back", id)
		}
	}
}

// stored says whether a document is there, hidden or not.
func (p *trial) stored(id int32) bool { return p.find(id) != nil }

// find returns a document, hidden or not, or nil.
func (p *trial) find(id int32) bson.Doc {
	c := p.w.cat.Lookup(trialName)
	_, doc, closer, err := c.FindID(nil, p.w.engine, bson.Int32(id))
	if err != nil {
		p.rt.Fatal(err)
	}
	if doc == nil {
		return nil
	}
	defer closer.Close()
	return doc.Clone()
}
