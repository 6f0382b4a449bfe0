package node

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

var (
	latencyStatsFields = command.NewFields("$collStats.latencyStats", command.Bool("histograms").NotNull())
	storageStatsFields = command.NewFields("$collStats.storageStats", command.SafeInt("scale").Min(1)).Lenient()
)

// collStatsOptions are the sections that a $collStats asks for.
type collStatsOptions struct {
	latency, histograms, storage, count, queries bool
	scale                                        int64
}

// collStats returns the statistics of the stage's collection as one document.
// (Manual: $collStats.)
func (w *world) collStats(arg bson.Doc) (pipeline.Iterator, error) {
	o, err := parseCollStats(arg)
	if err != nil {
		return nil, err
	}
	ns := w.ns.String()
	b := new(bson.Builder)
	b.String("ns", ns).String("host", w.op.Dispatcher.Host).Date("localTime", w.op.Dispatcher.Wall.Now().UnixMilli())
	if o.latency {
		b.OpenDoc("latencyStats")
		w.op.Dispatcher.Top.AppendLatency(b, ns, o.histograms)
		b.Close()
	}
	if o.storage {
		if err := w.mustBeCollection("storageStats"); err != nil {
			return nil, err
		}
		b.OpenDoc("storageStats")
		if err := w.n.appendStorageStats(b, w.coll, o.scale); err != nil {
			return nil, err
		}
		b.Close()
	}
	if o.count {
		if err := w.mustBeCollection("count"); err != nil {
			return nil, err
		}
		n := w.coll.Count()
		if w.coll.IsTimeseries() {
			s := w.coll.BucketStats()
			n = s.Buckets + s.Open
		}
		b.Int("count", n)
	}
	if o.queries {
		if err := w.mustBeCollection("queryExecStats"); err != nil {
			return nil, err
		}
		tailable, others := w.op.Dispatcher.Top.Scans(ns)
		b.OpenDoc("queryExecStats").OpenDoc("collectionScans")
		b.Int64("total", tailable+others).Int64("nonTailable", others).Close().Close()
	}
	return &pipeline.List{Docs: []bson.Doc{b.Finish()}}, nil
}

// mustBeCollection refuses a section that views do not have.
func (w *world) mustBeCollection(section string) error {
	switch {
	case w.coll == nil:
		return mongoerr.New(mongoerr.NamespaceNotFound, "Unable to retrieve %s in $collStats stage :: caused by :: Collection [%s] not found.", section, w.ns)
	case w.coll.IsView():
		return mongoerr.New(mongoerr.CommandNotSupportedOnView, "Unable to retrieve %s in $collStats stage :: caused by :: Namespace %s is a view, not a collection", section, w.ns)
	}
	return nil
}

// parseCollStats reads the sections; null asks for nothing.
func parseCollStats(arg bson.Doc) (o collStatsOptions, err error) {
	o.scale = 1
	for it := arg.Iter(); it.Next() && err == nil; {
		switch it.Key {
		case "latencyStats", "storageStats", "count", "queryExecStats":
		default:
			return o, mongoerr.New(40415, "BSON field '$collStats.%s' is an unknown field.", it.Key)
		}
		if it.Value.IsNullish() {
			continue
		}
		if it.Value.Type != bson.TypeDocument {
			return o, mongoerr.New(mongoerr.TypeMismatch, "BSON field '$collStats.%s' is the wrong type '%s', expected type 'object'", it.Key, it.Value.Type)
		}
		err = o.parseSection(it.Key, it.Value.Doc())
	}
	return o, err
}

func (o *collStatsOptions) parseSection(name string, d bson.Doc) error {
	switch name {
	case "latencyStats":
		a, err := command.ParseDoc(latencyStatsFields, d)
		if err != nil {
			return err
		}
		o.latency, o.histograms = true, a.Bool("histograms")
		return nil
	case "storageStats":
		a, err := command.ParseDoc(storageStatsFields, d)
		if err != nil {
			return err
		}
		o.storage, o.scale = true, int64(a.IntOr("scale", 1))
		return nil
	}
	if !d.IsEmpty() {
		return mongoerr.New(31170, "The %s option of $collStats must be an empty object", name)
	}
	if name == "count" {
		o.count = true
	} else {
		o.queries = true
	}
	return nil
}
