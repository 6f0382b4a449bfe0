package router

import (
	"context"
	"math"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// A rule of expiry is one for the cluster: what shards say of it is joined.

// reportOfShard is what a shard says of a rule.
type reportOfShard struct {
	shard string
	doc   bson.Doc
}

// expiryStats joins the shards' documents of $expiryStats, by their rules, in the order in which
// the shards have them. now is when the statement began, in milliseconds.
func expiryStats(ctx context.Context, all []*remote, now int64) (*pipeline.List, error) {
	defer closeAll(all)
	var order []string
	rules := map[string][]reportOfShard{}
	for _, m := range all {
		for {
			d, err := m.next(ctx)
			if err != nil {
				return nil, err
			}
			if d == nil {
				break
			}
			name := d.Lookup("rule").Str()
			if rules[name] == nil {
				order = append(order, name)
			}
			rules[name] = append(rules[name], reportOfShard{m.shard, d.Clone()})
		}
	}
	list := new(pipeline.List)
	for _, name := range order {
		if of := rules[name]; len(of) == 1 {
			list.Docs = append(list.Docs, of[0].doc)
		} else {
			list.Docs = append(list.Docs, joinReports(of, now))
		}
	}
	return list, nil
}

// joinReports makes one document of what several shards say of a rule: numbers are sums, the
// oldest instant and the longest lag count, and what keeps the rule from removing anything is
// said with the shard unless all say it. What each has said is in the field shards.
func joinReports(of []reportOfShard, now int64) bson.Doc {
	b := new(bson.Builder)
	for name, v := range of[0].doc.All() {
		switch name {
		case "skipped", "note", "relayout":
		case "paused":
			b.Bool(name, !slices.ContainsFunc(of, func(r reportOfShard) bool { return !r.doc.Lookup(name).Truthy() }))
		case "lagSeconds":
			most := int64(0)
			for _, r := range of {
				most = max(most, bson.ClampToInt64(r.doc.Lookup(name)))
			}
			b.Int(name, most)
		case "removedPerSecond":
			sum := 0.0
			for _, r := range of {
				sum += bson.ToDouble(r.doc.Lookup(name))
			}
			b.Double(name, sum)
		case "removed":
			b.Doc(name, sumOf(of, name))
		case "unswept":
			b.Value(name, bson.Int(sumOfNumbers(of, name)))
		case "lastPass":
			b.Value(name, latestPass(of))
		default:
			if !appendForecast(b, name, of, now) {
				b.Value(name, v)
			}
		}
	}
	if why := skipped(of); len(why) > 0 {
		b.Strings("skipped", why...)
	}
	b.OpenDoc("shards")
	for _, r := range of {
		b.Doc(r.shard, withoutFields(r.doc, "ns", "rule", "key", "kind", "expireAfterSeconds"))
	}
	return b.Close().Finish()
}

// appendForecast appends a field of a forecast, as package forecast writes them, joined; false if
// it is none.
func appendForecast(b *bson.Builder, name string, of []reportOfShard, now int64) bool {
	switch name {
	case "dueNow", "never":
		b.Doc(name, sumOf(of, name))
	case "oldestDue", "nextDue":
		least := bson.Null
		for _, r := range of {
			if v := r.doc.Lookup(name); v.Type == bson.TypeDate && (least.Type != bson.TypeDate || v.Date() < least.Date()) {
				least = v
			}
		}
		b.Value(name, least)
	case "histogram":
		in := make([]reportOfShard, len(of))
		for i, r := range of {
			in[i] = reportOfShard{r.shard, document(r.doc.Lookup(name))}
		}
		b.OpenDoc(name)
		appendBars(b, "minutes", in, now, 60*1000)
		appendBars(b, "hours", in, now, 3600*1000)
		appendBars(b, "days", in, now, 24*3600*1000)
		b.Doc("later", sumOf(in, "later")).Close()
	default:
		return false
	}
	return true
}

// appendBars appends the bars of the histograms, which begin at each shard's own now, joined by
// how many widths they are from it.
func appendBars(b *bson.Builder, name string, in []reportOfShard, now, width int64) {
	bars := map[int64][]reportOfShard{}
	var order []int64
	for _, r := range in {
		for _, d := range documents(r.doc.Lookup(name)) {
			i := int64(math.Round(float64(d.Lookup("from").Date()-now) / float64(width)))
			if bars[i] == nil {
				order = append(order, i)
			}
			bars[i] = append(bars[i], reportOfShard{r.shard, new(bson.Builder).Doc("bar", withoutFields(d, "from")).Finish()})
		}
	}
	slices.Sort(order)
	b.OpenArray(name)
	for n, i := range order {
		b.OpenDoc(bson.Index(n)).Date("from", now+i*width).Fields(sumOf(bars[i], "bar")).Close()
	}
	b.Close()
}

// sumOf sums the numbers of a document that all have.
func sumOf(of []reportOfShard, name string) bson.Doc {
	b := new(bson.Builder)
	for field := range document(of[0].doc.Lookup(name)).All() {
		sum := int64(0)
		for _, r := range of {
			sum += bson.ClampToInt64(document(r.doc.Lookup(name)).Lookup(field))
		}
		b.Int(field, sum)
	}
	return b.Finish()
}

func sumOfNumbers(of []reportOfShard, name string) (sum int64) {
	for _, r := range of {
		sum += bson.ClampToInt64(r.doc.Lookup(name))
	}
	return sum
}

// latestPass returns the last visit of a shard's monitor that was the latest; null for none.
func latestPass(of []reportOfShard) bson.Value {
	latest := bson.Null
	for _, r := range of {
		if v := r.doc.Lookup("lastPass"); v.Type == bson.TypeDocument && (latest.Type != bson.TypeDocument || v.Doc().Lookup("at").Date() > latest.Doc().Lookup("at").Date()) {
			latest = v
		}
	}
	return latest
}

// skipped says why nothing is removed.
func skipped(of []reportOfShard) (why []string) {
	who := map[string][]string{}
	var order []string
	for _, r := range of {
		v := r.doc.Lookup("skipped")
		if v.Type != bson.TypeArray {
			continue
		}
		for s := range v.Doc().Values() {
			if who[s.Str()] == nil {
				order = append(order, s.Str())
			}
			who[s.Str()] = append(who[s.Str()], r.shard)
		}
	}
	for _, s := range order {
		if len(who[s]) == len(of) {
			why = append(why, s)
			continue
		}
		for _, shard := range who[s] {
			why = append(why, shard+": "+s)
		}
	}
	return why
}

// joinDryRuns appends the forecasts of a dry run over several shards, by their replies in raw, as
// one: the array expiry.
func joinDryRuns(b *bson.Builder, raw bson.Doc, now int64) {
	var order []string
	rules := map[string][]reportOfShard{}
	for host, v := range raw.All() {
		for _, d := range documents(document(v).Lookup("expiry")) {
			name := d.Lookup("rule").Str()
			if rules[name] == nil {
				order = append(order, name)
			}
			rules[name] = append(rules[name], reportOfShard{host, d})
		}
	}
	if len(order) == 0 {
		return
	}
	b.Bool("dryRun", true).OpenArray("expiry")
	for i, name := range order {
		b.OpenDoc(bson.Index(i))
		for field, v := range rules[name][0].doc.All() {
			if !appendForecast(b, field, rules[name], now) {
				b.Value(field, v)
			}
		}
		b.Close()
	}
	b.Close()
}
