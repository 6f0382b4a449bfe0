package node

import (
	"context"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/invariant"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// ParametersNamespace is where the cluster parameters that were set are stored.
var ParametersNamespace = schema.Namespace{DB: "config", Coll: "clusterParameters"}

// DefaultMaxTime is the parameter with the time limit of reads that give none.
const DefaultMaxTime = "defaultMaxTimeMS"

// FeedRetention is the _id of the document that says for how long all shards of a cluster keep
// their logs for change feeds: {minutes: Long}. Only config servers set it.
const FeedRetention = "changeFeedRetention"

// clusterParameter declares a parameter that all members of a cluster share.
type clusterParameter struct {
	name string
	// parse checks a value and returns all its fields, those left out with their
	// defaults.
	parse func(d bson.Doc) (bson.Doc, error)
}

var clusterParameterList = []clusterParameter{
	{"changeStreamOptions", parseChangeStreamOptions},
	{"changeStreams", oneField("changeStreams", command.SafeInt64("expireAfterSeconds").Above(0), bson.Int64(3600))},
	{DefaultMaxTime, oneField(DefaultMaxTime, command.SafeInt64("readOperations").Min(0), bson.Int64(0))},
	{"fleDisableSubstringPreviewParameterLimits", oneField("fleDisableSubstringPreviewParameterLimits", command.Bool("enabled"), bson.False)},
	{"pauseMigrationsDuringMultiUpdates", oneField("pauseMigrationsDuringMultiUpdates", command.Bool("enabled"), bson.False)},
}

// oneField parses the value of a parameter with a single field.
func oneField(parameter string, f *command.Field, absent bson.Value) func(bson.Doc) (bson.Doc, error) {
	fields := command.NewFields(parameter, f)
	name := f.Name()
	return func(d bson.Doc) (bson.Doc, error) {
		a, err := command.ParseDoc(fields, d)
		if err != nil {
			return nil, err
		}
		v := absent
		if a.Has(name) {
			if v = a.Value(name); v.IsNumber() {
				v = bson.Int64(a.Int64(name))
			}
		}
		return new(bson.Builder).Value(name, v).Finish(), nil
	}
}

// off is the value of changeStreamOptions that keeps images forever.
var off = bson.String("off")

// parseChangeStreamOptions parses {preAndPostImages: {expireAfterSeconds}}, a
// number above 0 or "off".
func parseChangeStreamOptions(d bson.Doc) (bson.Doc, error) {
	bad := func(format string, args ...any) (bson.Doc, error) {
		return nil, mongoerr.New(mongoerr.BadValue, format, args...)
	}
	seconds := off
	if d != nil {
		name, images := d.First()
		if name != "preAndPostImages" || images.Type != bson.TypeDocument || d.Len() != 1 {
			return bad("Expected exactly the field 'changeStreamOptions.preAndPostImages', a document, found: %s", d)
		}
		name, seconds = images.Doc().First()
		if name != "expireAfterSeconds" || images.Doc().Len() != 1 {
			return bad("Expected exactly the field 'changeStreamOptions.preAndPostImages.expireAfterSeconds', found: %s", images)
		}
	}
	switch {
	case seconds.Type == bson.TypeString && seconds.Str() == "off":
	case seconds.IsNumber() && bson.ClampToInt64(seconds) > 0:
		seconds = bson.Int64(bson.ClampToInt64(seconds))
	default:
		return bad("Expected a number above zero or 'off' for 'expireAfterSeconds', found: %s", seconds)
	}
	return new(bson.Builder).OpenDoc("preAndPostImages").Value("expireAfterSeconds", seconds).Close().Finish(), nil
}

// clusterParameters holds the values of the cluster parameters.
type clusterParameters struct {
	mu     sync.Mutex
	values map[string]bson.Doc // as stored, with _id and clusterParameterTime
}

// storedParameters are all parameters, with those that have commands of their own.
func storedParameters() []*clusterParameter {
	list := []*clusterParameter{{name: querySettingsName}, {name: FeedRetention}}
	for i := range clusterParameterList {
		list = append(list, &clusterParameterList[i])
	}
	return list
}

// ClusterParameterNames are the parameters that setClusterParameter sets.
func ClusterParameterNames() (names []string) {
	for i := range clusterParameterList {
		names = append(names, clusterParameterList[i].name)
	}
	return names
}

func findClusterParameter(name string) (*clusterParameter, error) {
	for i := range clusterParameterList {
		if clusterParameterList[i].name == name {
			return &clusterParameterList[i], nil
		}
	}
	return nil, mongoerr.New(mongoerr.NoSuchKey, "Unknown server parameter: %s", name)
}

// clusterValue is a parameter as getClusterParameter prints it.
func (n *Node) clusterValue(p *clusterParameter) (bson.Doc, error) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if err := n.loadClusterParameters(); err != nil {
		return nil, err
	}
	if d := n.cluster.values[p.name]; d != nil {
		return d, nil
	}
	fields, err := p.parse(nil)
	if err != nil {
		return nil, err
	}
	return ClusterParameter(p.name, fields, 0), nil
}

// ClusterParameter is the document of a parameter that was set at a time.
func ClusterParameter(name string, fields bson.Doc, at uint64) bson.Doc {
	return new(bson.Builder).String("_id", name).Timestamp("clusterParameterTime", at).Fields(fields).Finish()
}

// startClusterParameters puts stored parameters into effect. Where they cannot
// be read, the defaults apply until a command needs the parameters, which then
// returns the error.
func (n *Node) startClusterParameters() {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if err := n.loadClusterParameters(); err != nil {
		n.Log.Error("Cannot read the cluster parameters", "c", "CONTROL", "id", logParametersUnread, "error", err.Error())
	}
}

// loadClusterParameters reads the stored parameters, once. REQUIRES: cluster.mu
// held.
func (n *Node) loadClusterParameters() error {
	invariant.Held(&n.cluster.mu, "node: cluster.mu is held")
	if n.cluster.values != nil {
		return nil
	}
	values := map[string]bson.Doc{}
	if n.Catalog != nil {
		for _, p := range storedParameters() {
			d, err := n.Catalog.Kept(ParametersNamespace, bson.String(p.name))
			if err != nil {
				return err
			}
			if d != nil {
				values[p.name] = d
			}
			n.applyClusterParameter(p, d)
		}
	}
	n.cluster.values = values
	return nil
}

// setClusterValue sets a parameter and stores it.
func (n *Node) setClusterValue(ctx context.Context, name string, fields bson.Doc) error {
	p, err := findClusterParameter(name)
	if err != nil {
		return err
	}
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if err := n.loadClusterParameters(); err != nil {
		return err
	}
	d := ClusterParameter(p.name, fields, n.timestamp())
	if n.Catalog != nil {
		if err := n.storeClusterParameter(ctx, p.name, d); err != nil {
			return err
		}
	}
	n.cluster.values[p.name] = d
	n.applyClusterParameter(p, d)
	return nil
}

func (n *Node) storeClusterParameter(ctx context.Context, name string, d bson.Doc) error {
	c := n.Catalog.Lookup(ParametersNamespace)
	if c == nil {
		var err error
		if c, err = n.Catalog.Create(ctx, ParametersNamespace, nil); err != nil {
			return err
		}
	}
	key := c.AppendIDKey(nil, bson.String(name))
	return n.Catalog.Run(ctx, storage.Journaled, func(u *catalog.Unit) error {
		old, err := u.LockRecord(ctx, c, key)
		if err != nil {
			return err
		}
		if old == nil {
			return u.Insert(ctx, c, d)
		}
		return u.Update(ctx, c, key, old, d)
	})
}

// applyClusterParameter puts a value into effect, the default for nil.
func (n *Node) applyClusterParameter(p *clusterParameter, d bson.Doc) {
	if p.name == querySettingsName {
		n.settings.Store(NewQuerySettings(d))
	}
	if p.name == FeedRetention && n.shard && n.Dispatcher.Member != nil {
		n.Dispatcher.Member.Retain(time.Duration(bson.ClampToInt64(d.Lookup("minutes"))) * time.Minute)
	}
	if p.name == DefaultMaxTime {
		n.Dispatcher.DefaultReadTime.Store(bson.ClampToInt64(d.Lookup("readOperations")))
	}
}

// logParametersUnread is the id of the lines about cluster parameters that cannot be read.
const logParametersUnread = 9000011
