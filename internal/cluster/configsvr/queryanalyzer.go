package configsvr

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Routers keep samples of queries, for analyzeShardKey. config.queryAnalyzers says of which
// collections: {_id: uuid, ns, mode, samplesPerSecond, startTime, stopTime}. Each router asks for
// its share, and writes its samples into config.sampledQueries, whence a TTL index removes them.

const (
	queryAnalyzers = "queryAnalyzers"
	sampledQueries = "sampledQueries"
	// maxSamplesPerSecond is mongod's bound of samplesPerSecond.
	maxSamplesPerSecond = 50
	// maxSampledQueries is how many samples there are at most: none are taken until some expire.
	maxSampledQueries = 1_000_000
	// activeRouter is how long after its last sign of life a router has a share of the samples.
	activeRouter = 30 * time.Second
)

// configureQueryAnalyzer says how many queries on a collection are sampled. (Manual:
// configureQueryAnalyzer.)
func (s *Server) configureQueryAnalyzer() *command.Command {
	return newCommand("ConfigureQueryAnalyzer", command.String(""), s.runConfigureAnalyzer, command.Enum("mode", "full", "off").Required(),
		command.OneOf("samplesPerSecond", bson.TypeDouble, bson.TypeInt32, bson.TypeInt64))
}

func (s *Server) runConfigureAnalyzer(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	if at := schema.ParseNamespace(ns); at.DB == "admin" || at.DB == "config" || at.DB == "local" || at.IsSystem() {
		return mongoerr.New(mongoerr.IllegalOperation, "Cannot run against an internal database, or a system collection")
	}
	mode, rate := op.Args.Str("mode"), op.Args.Value("samplesPerSecond")
	switch n := bson.ToDouble(rate); {
	case mode == "off" && !rate.IsMissing():
		return mongoerr.New(mongoerr.InvalidOptions, "Cannot specify 'samplesPerSecond' when 'mode' is \"off\"")
	case mode == "off":
	case rate.IsMissing():
		return mongoerr.New(mongoerr.InvalidOptions, "'samplesPerSecond' must be specified when 'mode' is not \"off\"")
	case !(n > 0):
		return mongoerr.New(mongoerr.InvalidOptions, "'samplesPerSecond' must be greater than 0")
	case n > maxSamplesPerSecond:
		return mongoerr.New(mongoerr.InvalidOptions, "'samplesPerSecond' must be less than or equal to %d", maxSamplesPerSecond)
	}
	id, err := s.uuidOf(ctx, ns)
	if err != nil {
		return err
	}
	var old bson.Doc
	err = s.change(ctx, func() (writes []write, err error) {
		old, writes, err = s.analyzes(ns, id, mode, rate)
		return writes, err
	})
	if err != nil {
		return err
	}
	configuration := func(name, mode string, rate bson.Value) {
		op.Reply.OpenDoc(name).String("mode", mode).Value("samplesPerSecond", rate).Close()
	}
	if old != nil {
		configuration("oldConfiguration", text(old, "mode"), old.Lookup("samplesPerSecond"))
	}
	configuration("newConfiguration", mode, asDouble(rate))
	return nil
}

func asDouble(v bson.Value) bson.Value {
	if v.IsMissing() {
		return v
	}
	return bson.Double(bson.ToDouble(v))
}

// uuidOf returns the UUID of a collection, sharded or not. Errors: 26, 166.
func (s *Server) uuidOf(ctx context.Context, ns string) (bson.UUID, error) {
	c, err := s.collection(ns)
	if err != nil || c.Namespace != "" {
		return c.UUID, err
	}
	var missing error = mongoerr.New(mongoerr.NamespaceNotFound, "ns not found %s", ns)
	db, err := s.database(databaseOf(ns))
	if err != nil || db.Name == "" {
		return c.UUID, cmp.Or(err, missing)
	}
	if c, err = s.unsharded(ctx, db, ns); err != nil || c.Namespace == "" {
		return c.UUID, cmp.Or(err, missing)
	}
	if c.UUID == (bson.UUID{}) {
		return c.UUID, mongoerr.New(mongoerr.CommandNotSupportedOnView, "The namespace corresponds to a view: %s", ns)
	}
	return c.UUID, nil
}

// analyzes returns the writes that configure the analyzer of a collection, and what it was for
// that before, or nil. What another collection of that name has goes. The caller holds mu.
func (s *Server) analyzes(ns string, id bson.UUID, mode string, rate bson.Value) (old bson.Doc, writes []write, err error) {
	now := bson.Date(time.Now().UnixMilli())
	key := new(bson.Builder).Binary("_id", 4, id[:]).Finish().Lookup("_id")
	if old, err = s.stored(queryAnalyzers, key); err != nil {
		return nil, nil, err
	}
	all, err := s.all(queryAnalyzers)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range all {
		if text(d, "ns") == ns && !bson.Equal(d.Lookup("_id"), key) {
			writes = append(writes, remove(queryAnalyzers, d.Lookup("_id")))
		}
	}
	switch {
	case mode != "off":
		began := now
		if v := old.Lookup("startTime"); text(old, "mode") == mode && v.Type == bson.TypeDate {
			began = v
		}
		b := new(bson.Builder).Value("_id", key).String("ns", ns).String("mode", mode).Value("samplesPerSecond", asDouble(rate)).Value("startTime", began)
		writes = append(writes, put(queryAnalyzers, b.Finish()))
	case old != nil && text(old, "mode") != "off":
		writes = append(writes, put(queryAnalyzers, with(old, field{"mode", bson.String(mode)}, field{"samplesPerSecond", bson.Value{}}, field{"stopTime", now})))
	}
	return old, writes, nil
}

// stopsAnalyzing returns the writes that end sampling of the collections that match, which are
// dropped or get another name.
func (s *Server) stopsAnalyzing(match func(ns string) bool) (writes []write, err error) {
	all, err := s.all(queryAnalyzers)
	for _, d := range all {
		if match(text(d, "ns")) {
			writes = append(writes, remove(queryAnalyzers, d.Lookup("_id")))
		}
	}
	return writes, err
}

// refreshQueryAnalyzers answers {_configsvrRefreshQueryAnalyzers: router} with {configurations:
// [{ns, collectionUuid, samplesPerSecond, startTime}]}, the share of one router.
func (s *Server) refreshQueryAnalyzers() *command.Command {
	return newCommand("RefreshQueryAnalyzers", command.String(""), s.runRefreshAnalyzers)
}

func (s *Server) runRefreshAnalyzers(_ context.Context, op *command.Op) error {
	if _, err := s.term(); err != nil {
		return err
	}
	routers, err := s.activeRouters(value(op))
	if err != nil {
		return err
	}
	all, err := s.all(queryAnalyzers)
	if err != nil {
		return err
	}
	full := false
	if c := s.Catalog.Lookup(namespace(sampledQueries)); c != nil {
		full = c.Count() >= maxSampledQueries
	}
	b, n := op.Reply.OpenArray("configurations"), 0
	for _, d := range all {
		if text(d, "mode") == "off" || full {
			continue
		}
		b.OpenDoc(bson.Index(n)).Value("ns", d.Lookup("ns")).Value("collectionUuid", d.Lookup("_id")).
			Double("samplesPerSecond", bson.ToDouble(d.Lookup("samplesPerSecond"))/float64(routers)).Value("startTime", d.Lookup("startTime")).Close()
		n++
	}
	b.Close()
	return nil
}

// activeRouters counts the routers that have lately told of themselves, and the one that asks.
func (s *Server) activeRouters(asks string) (int, error) {
	names := []string{asks}
	now := time.Now()
	err := s.each("mongos", func(d bson.Doc) error {
		if ping := d.Lookup("ping"); ping.Type == bson.TypeDate && now.Sub(time.UnixMilli(ping.Date())) < activeRouter {
			names = append(names, text(d, "_id"))
		}
		return nil
	})
	slices.Sort(names)
	return len(slices.Compact(names)), err
}
