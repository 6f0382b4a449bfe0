package expire

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestRemovesWhatTheManualSays draws documents with all that may stand where a date should, and rules
// of every kind on them. A dry run says how many documents are due by each rule; once the rules are
// there, those go, and no other. (Manual: "TTL Indexes".)
func TestRemovesWhatTheManualSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(untimed{t}, func(rt *rapid.T) {
			p := byManual{rt: rt, w: newWorld(t)}
			defer p.w.close()
			p.documents(rapid.SampledFrom([]string{"ordinary", "ordinary", "windows", "clustered"}).Draw(rt, "layout"))
		})
	})
}

// TestSeriesRemoval is the same for a time series. Measurements go with those of their bucket, or
// where the rule is exact each for itself; none goes early.
func TestSeriesRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rapid.Check(untimed{t}, func(rt *rapid.T) {
			p := byManual{rt: rt, w: newWorld(t)}
			defer p.w.close()
			p.series()
		})
	})
}

// byManual is a collection c, and what the manual says of it.
type byManual struct {
	rt *rapid.T
	w  *world
}

// manualRule is a rule on a path. Its filter is that x is below a number; 0 for none.
type manualRule struct {
	name, path, options string
	seconds             int64
	below               int32
	exact               bool
}

func (r *manualRule) spec(more string) string {
	return fmt.Sprintf(`{key: {%q: %d}, name: %q, expireAfterSeconds: %s%s%s}`, r.path, 1-2*(len(r.name)%2), r.name, r.written(), r.options, more)
}

// written is the time to live as a client may write it: fractions are cut off.
func (r *manualRule) written() string {
	return fmt.Sprint([]any{r.seconds, fmt.Sprintf("%d.5", r.seconds), fmt.Sprintf(`{$numberLong: "%d"}`, r.seconds), fmt.Sprintf(`{$numberDecimal: "%d"}`, r.seconds)}[r.seconds%4])
}

const dry = `, storageEngine: {mayfly: {expiry: {dryRun: true}}}`

func (p *byManual) run(format string, args ...any) bson.Doc {
	body, err := bson.ParseJSON(fmt.Sprintf(format, args...))
	if err != nil {
		p.rt.Fatalf(format+": %v", append(args, err)...)
	}
	d := p.w.runOn(body)
	if d.Lookup("ok").Double() != 1 || d.Has("writeErrors") {
		p.rt.Fatalf("%s: %s", body, d)
	}
	return d
}

// rules draws rules of documents.
func (p *byManual) rules() (rs []manualRule) {
	for i := range rapid.IntRange(1, 3).Draw(p.rt, "rules") {
		r := manualRule{name: "r" + strings.Repeat("x", i), path: rapid.SampledFrom([]string{"a", "a.b", "b", "a.b.c"}).Draw(p.rt, "path")}
		r.seconds = rapid.SampledFrom([]int64{0, 1, 59, 3600, 3601, 86400, math.MaxInt32}).Draw(p.rt, "seconds")
		switch rapid.IntRange(0, 5).Draw(p.rt, "options") {
		case 0:
			r.below = rapid.Int32Range(1, 4).Draw(p.rt, "below")
			r.options = fmt.Sprintf(", partialFilterExpression: {x: {$lt: %d}}", r.below)
		case 1:
			r.options = ", sparse: true"
		case 2:
			r.options = ", hidden: true"
		case 3:
			r.options = `, collation: {locale: "en", strength: 2}`
		}
		// Two of one key and the same options are one.
		if !slices.ContainsFunc(rs, func(o manualRule) bool { return o.path == r.path }) {
			rs = append(rs, r)
		}
	}
	return rs
}

// instant draws a date that is due by a time to live now or not within minutes.
func (p *byManual) instant() int64 {
	now := time.Now().UnixMilli()
	if rapid.IntRange(0, 4).Draw(p.rt, "far") == 0 {
		return rapid.SampledFrom([]int64{math.MinInt64, math.MinInt64 + 1, -62135596800000, -1, 0, 1, 253402300799999, math.MaxInt64, math.MaxInt64 - 1, now - math.MaxInt32*1000, now - math.MaxInt32*1000 - 1}).Draw(p.rt, "date")
	}
	ago := rapid.SampledFrom([]int64{0, 1_000, 59_000, 3600_000, 3601_000, 86400_000}).Draw(p.rt, "ago")
	return now - ago + rapid.SampledFrom([]int64{0, -1, -1000, 500_000}).Draw(p.rt, "by")
}

func (p *byManual) date() string {
	return fmt.Sprintf(`{$date: {$numberLong: "%d"}}`, p.instant())
}

// value draws what stands where a date should.
func (p *byManual) value(depth int) string {
	switch kind := rapid.IntRange(0, 9).Draw(p.rt, "kind"); {
	case kind < 4:
		return p.date()
	case kind < 6 && depth > 0:
		var es []string
		for range rapid.IntRange(0, 3).Draw(p.rt, "elements") {
			es = append(es, p.value(depth-1))
		}
		return "[" + strings.Join(es, ", ") + "]"
	case kind < 8 && depth > 0:
		return fmt.Sprintf("{b: %s}", p.value(depth-1))
	case kind == 8 && depth > 0:
		return fmt.Sprintf("{b: {c: %s}}", p.value(depth-1))
	}
	return rapid.SampledFrom([]string{"null", "0", "-1", "946684800", `"2000-01-01T00:00:00Z"`, "true", `{$timestamp: {t: 1, i: 1}}`, `{$oid: "386d43800000000000000000"}`, `{$minKey: 1}`, `{$maxKey: 1}`, `{$undefined: true}`,
		`{$numberDouble: "NaN"}`, `{$numberLong: "-9223372036854775808"}`, "{}", "[]", `{$binary: {base64: "AA==", subType: "00"}}`}).Draw(p.rt, "value")
}

// dates are those of the keys that an index on a path has of a value.
func dates(v bson.Value, path []string) (at []int64) {
	if len(path) == 0 {
		if v.Type == bson.TypeArray {
			for _, e := range v.Doc().Slice() {
				if e.Type == bson.TypeDate {
					at = append(at, e.Date())
				}
			}
		} else if v.Type == bson.TypeDate {
			at = append(at, v.Date())
		}
		return at
	}
	switch v.Type {
	case bson.TypeDocument:
		return dates(v.Doc().Lookup(path[0]), path[1:])
	case bson.TypeArray:
		for _, e := range v.Doc().Slice() {
			if e.Type == bson.TypeDocument {
				at = append(at, dates(e.Doc().Lookup(path[0]), path[1:])...)
			}
		}
	}
	return at
}

// due reports whether a document is due by a rule.
func (r *manualRule) due(d bson.Doc) bool {
	upTo := time.Now().UnixMilli() - r.seconds*1000
	if r.below != 0 && d.Lookup("x").Int32() >= r.below {
		return false
	}
	if r.path == "_id" { // of a clustered collection, from 1970 on
		v := d.Lookup("_id")
		return v.Type == bson.TypeDate && v.Date() >= 0 && v.Date() <= upTo
	}
	return slices.ContainsFunc(dates(bson.Document(d), strings.Split(r.path, ".")), func(at int64) bool { return at <= upTo })
}

// documents tries documents in a layout.
func (p *byManual) documents(layout string) {
	rules := p.rules()
	change := ""
	switch layout {
	case "windows":
		p.run(`{setParameter: 1, expiryWindows: true, $db: "admin"}`)
		first := rules[0]
		first.seconds = 100_000_000_000 / 1000 * 20 // later than any
		if first.seconds > math.MaxInt32 {
			first.seconds = math.MaxInt32 - 3
		}
		p.run(`{createIndexes: "c", indexes: [%s]}`, first.spec(""))
		change = first.name
	case "clustered":
		p.run(`{create: "c", clusteredIndex: {key: {_id: 1}, unique: true}}`)
		rules = append(rules, manualRule{path: "_id", seconds: rapid.SampledFrom([]int64{0, 59, 3600}).Draw(p.rt, "clustered")})
	default:
		p.run(`{create: "c"}`)
	}
	all := map[string]bson.Doc{}
	for i := range rapid.IntRange(1, 12).Draw(p.rt, "documents") {
		id := fmt.Sprint(i)
		if layout == "clustered" && i%3 == 0 {
			id = p.date()
		}
		d := bson.MustParse(fmt.Sprintf("{_id: %s, x: %d, a: %s, b: %s}", id, rapid.IntRange(0, 4).Draw(p.rt, "x"), p.value(3), p.value(2)))
		if _, twice := all[d.Lookup("_id").String()]; twice {
			continue
		}
		var b bson.Builder
		reply := p.w.runOn(b.String("insert", "c").OpenArray("documents").Doc("0", d).Close().Finish())
		if reply.Has("writeErrors") {
			continue // parallel arrays are none, but an index may refuse a document
		}
		all[d.Lookup("_id").String()] = d
	}
	// What waits for its window is looked at again before the next pass; what comes due meanwhile is due then.
	for i := range rules {
		p.foreseen(&rules[i], all, change)
	}
	for i := range rules {
		switch r := &rules[i]; {
		case r.path == "_id":
			p.run(`{collMod: "c", expireAfterSeconds: {$numberLong: "%d"}}`, r.seconds)
		case r.name == change:
			p.run(`{collMod: "c", index: {name: %q, expireAfterSeconds: %s}}`, r.name, r.written())
		default:
			p.run(`{createIndexes: "c", indexes: [%s]}`, r.spec(""))
		}
	}
	time.Sleep(3 * time.Minute)
	synctest.Wait()
	left := p.left()
	for id, d := range all {
		i := slices.IndexFunc(rules, func(r manualRule) bool { return r.due(d) })
		if there := left[id] != nil; there == (i >= 0) {
			p.rt.Fatalf("%s: left %t at %d, of %+v due by %d", d, there, time.Now().UnixMilli(), rules, i)
		}
	}
	if v := p.run(`{validate: "c", full: true}`); !v.Lookup("valid").Bool() {
		p.rt.Fatalf("%s", v)
	}
}

// foreseen holds a dry run of a rule, and of documents, to what is due.
func (p *byManual) foreseen(r *manualRule, all map[string]bson.Doc, change string) {
	var reply bson.Doc
	switch {
	case r.path == "_id":
		reply = p.run(`{collMod: "c", expireAfterSeconds: {$numberLong: "%d"}%s}`, r.seconds, dry)
	case r.name == change:
		reply = p.run(`{collMod: "c", index: {name: %q, expireAfterSeconds: %s%s}}`, r.name, r.written(), dry)
	default:
		reply = p.run(`{createIndexes: "c", indexes: [%s]}`, r.spec(dry))
	}
	want := int64(0)
	for _, d := range all {
		if r.due(d) {
			want++
		}
	}
	p.foretold(reply, want, int64(len(all)))
}

// foretold holds a dry run to how many documents are due now, and how many there are.
func (p *byManual) foretold(reply bson.Doc, due, all int64) {
	for v := range reply.Lookup("expiry").Doc().Values() {
		f := v.Doc()
		at := func(v bson.Value) int64 { return bson.ClampToInt64(v.Doc().Lookup("documents")) }
		sum := at(f.Lookup("dueNow")) + at(f.Lookup("never")) + at(f.Lookup("histogram").Doc().Lookup("later"))
		for d := range f.Lookup("histogram").Doc().Lookup("days").Doc().Values() {
			sum += at(d)
		}
		if got := at(f.Lookup("dueNow")); got != due || sum != all {
			p.rt.Fatalf("%s: of %d documents %d are due", f, all, due)
		}
	}
}

// left are the documents that are left, by their _ids.
func (p *byManual) left() map[string]bson.Doc {
	left := map[string]bson.Doc{}
	for v := range p.run(`{find: "c", batchSize: 1000}`).Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
		left[v.Doc().Lookup("_id").String()] = v.Doc()
	}
	return left
}

// series tries measurements, with one rule.
func (p *byManual) series() {
	exact := rapid.Bool().Draw(p.rt, "exact")
	r := manualRule{name: "r", path: "t", exact: exact, seconds: rapid.SampledFrom([]int64{0, 59, 3600, 86400}).Draw(p.rt, "seconds")}
	settings := ""
	if exact {
		settings = ", storageEngine: {mayfly: {expiry: {exact: true}}}"
	}
	p.run(`{create: "c", timeseries: {timeField: "t", metaField: "x", %s}%s}`, rapid.SampledFrom([]string{`granularity: "seconds"`, `bucketMaxSpanSeconds: 1, bucketRoundingSeconds: 1`, `granularity: "hours"`}).Draw(p.rt, "span"), settings)
	all := map[string]bson.Doc{}
	for range rapid.IntRange(1, 3).Draw(p.rt, "batches") {
		var b bson.Builder
		b.String("insert", "c").OpenArray("documents")
		for i := range rapid.IntRange(1, 8).Draw(p.rt, "measurements") {
			at := p.instant()
			if in := at + r.seconds*1000 - time.Now().UnixMilli(); in > 0 && in <= 200_000 {
				at += 300_000 // not due after the forecast only
			}
			d := new(bson.Builder).Int64("_id", int64(len(all))).Date("t", at).Int32("x", rapid.Int32Range(0, 4).Draw(p.rt, "x")).Int32("v", int32(i)).Finish()
			all[d.Lookup("_id").String()] = d
			b.Doc(bson.Index(i), d)
		}
		if reply := p.w.runOn(b.Close().Finish()); reply.Has("writeErrors") {
			p.rt.Fatalf("%s", reply)
		}
		if rapid.Bool().Draw(p.rt, "sealed") {
			p.run(`{aggregate: "system.buckets.c", pipeline: [], cursor: {}}`)
		}
	}
	command := fmt.Sprintf(`{collMod: "c", expireAfterSeconds: {$numberLong: "%d"}DRY}`, r.seconds)
	if rapid.Bool().Draw(p.rt, "of some") {
		r.below = rapid.Int32Range(1, 4).Draw(p.rt, "below")
		command = fmt.Sprintf(`{createIndexes: "c", indexes: [{key: {t: 1}, name: "r", expireAfterSeconds: %d, partialFilterExpression: {x: {$lt: %d}}DRY}]}`, r.seconds, r.below)
	}
	foretold := p.run("%s", strings.Replace(command, "DRY", dry, 1))
	p.run("%s", strings.Replace(command, "DRY", "", 1))
	time.Sleep(3 * time.Minute)
	synctest.Wait()
	left := p.left()
	for id, d := range all {
		due := r.due(d)
		if there := left[id] != nil; !there && !due || there && due && exact {
			p.rt.Fatalf("%s: left %t at %d by %+v", d, there, time.Now().UnixMilli(), r)
		}
	}
	if !exact { // a forecast does not look into buckets
		p.foretold(foretold, int64(len(all)-len(left)), int64(len(all)))
	}
	if v := p.run(`{validate: "c", full: true}`); !v.Lookup("valid").Bool() {
		p.rt.Fatalf("%s", v)
	}
}
