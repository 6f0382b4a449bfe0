package clustertest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/shard"
)

// Shard is one shard.
type Shard struct {
	ID string
	// Identity is the cluster that the shard belongs to, "" for none.
	Identity  string
	Databases map[string]Database
	// Collections is keyed by namespace. A Collection is never changed in place.
	Collections map[string]*Collection
	// Settings are those that the config servers have told, by collection and _id.
	Settings map[string]string
	fences   map[string]step.Fence
	low      int64
	// Copies says that a range is received at once, from the shard that Peer finds by
	// its host. Without it, Copy must be called.
	Copies bool
	Peer   func(host string) *Shard
	// NoFence plants a bug: late requests are executed.
	NoFence bool
}

// Database is what a shard knows of a database.
type Database struct {
	Version          string
	Primary, Blocked bool
}

// Collection is a collection of a shard.
type Collection struct {
	UUID    string
	Sharded bool
	Key     *shard.Key
	Version shard.Version
	Docs    []bson.Doc // of the size of Bytes each
	Indexes []string
	// Modified is what collMod has changed last.
	Modified string
	Hidden   []Hidden
	Blocked  *Blocked
	// Cloned says that CloneDatabase created the collection.
	Cloned bool
	// Receiving is set while the collection is received under another shard key.
	Receiving *Receiving
	// Bytes is the size of a document.
	Bytes int64
}

// Hidden is a range that reads do not see.
type Hidden struct {
	shard.Range
	Operation int64
	From      string
	Copied    int64 // writes of the donor that were copied
	Given     bool
}

// Blocked is a range in which writes are blocked.
type Blocked struct {
	shard.Range
	Whole, Reads bool
	Operation    int64
}

// New returns a shard that belongs to no cluster.
func New(id string) *Shard {
	return &Shard{ID: id, Databases: map[string]Database{}, Collections: map[string]*Collection{}, Settings: map[string]string{}, fences: map[string]step.Fence{}}
}

// Clone copies the shard. What the copies share is never changed.
func (s *Shard) Clone() *Shard {
	c := *s
	c.Databases, c.Collections, c.Settings, c.fences = maps.Clone(s.Databases), maps.Clone(s.Collections), maps.Clone(s.Settings), maps.Clone(s.fences)
	return &c
}

// String formats the complete state of the shard, except its fences.
func (s *Shard) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s identity %q", s.ID, s.Identity)
	for _, name := range slices.Sorted(maps.Keys(s.Databases)) {
		d := s.Databases[name]
		fmt.Fprintf(&b, "\n  db %s %s primary %v blocked %v", name, d.Version, d.Primary, d.Blocked)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Settings)) {
		fmt.Fprintf(&b, "\n  setting %s is %s", name, s.Settings[name])
	}
	for _, ns := range slices.Sorted(maps.Keys(s.Collections)) {
		c := s.Collections[ns]
		fmt.Fprintf(&b, "\n  %s %s docs %d indexes %v", ns, c.UUID, len(c.Docs), c.Indexes)
		if c.Sharded {
			fmt.Fprintf(&b, " key %v version %d|%d@%d", c.Key, c.Version.Major, c.Version.Minor, c.Version.Timestamp)
		}
		for _, h := range c.Hidden {
			fmt.Fprintf(&b, " hidden %s given %v copied %d", c.Key.RangeText(h.Range), h.Given, h.Copied)
		}
		if c.Receiving != nil {
			fmt.Fprintf(&b, " receiving %v done %v", c.Receiving.Copied, c.Receiving.Done)
		}
		if c.Blocked != nil {
			fmt.Fprintf(&b, " blocked whole %v reads %v", c.Blocked.Whole, c.Blocked.Reads)
		}
	}
	return b.String()
}

// FencesText formats the fences.
func (s *Shard) FencesText() string {
	var b strings.Builder
	for _, ns := range slices.Sorted(maps.Keys(s.fences)) {
		fmt.Fprintf(&b, "%s %v;", ns, s.fences[ns])
	}
	return b.String()
}

// Fenced is the first half of a request: it checks the fence, and raises it.
// Errors: 117.
func (s *Shard) Fenced(body bson.Doc) error {
	v := body.Lookup("operation")
	if v.IsMissing() || s.NoFence {
		return nil
	}
	f, err := step.ParseFence(v)
	if err != nil {
		return err
	}
	name := ""
	if _, value := body.First(); value.Type == bson.TypeString {
		name = value.Str()
	}
	have, ok := s.fences[name]
	if f.Number < s.low || ok && f.Compare(have) < 0 {
		return mongoerr.New(mongoerr.ConflictingOperationInProgress, "the operation has advanced or ended")
	}
	s.low = max(s.low, f.Low)
	f.Low = 0
	s.fences[name] = f
	maps.DeleteFunc(s.fences, func(_ string, f step.Fence) bool { return f.Number < s.low })
	return nil
}

// Do executes a request. Errors: 117 of the fence, and those of the request.
func (s *Shard) Do(body bson.Doc) (bson.Doc, error) {
	if err := s.Fenced(body); err != nil {
		return nil, err
	}
	name, value := body.First()
	do := commands[name]
	if do == nil {
		return nil, mongoerr.New(mongoerr.CommandNotFound, "no such command: '%s'", name)
	}
	ns := ""
	if value.Type == bson.TypeString {
		ns = value.Str()
	}
	reply := new(bson.Builder)
	if err := do(&request{s, ns, body, number(body.Lookup("operation").Doc(), "number"), reply}); err != nil {
		return nil, err
	}
	return reply.Finish(), nil
}

func number(d bson.Doc, name string) int64 {
	n, _ := bson.ExactInt64(d.Lookup(name))
	return n
}

// change replaces a collection by one that f has changed.
func (s *Shard) change(ns string, f func(c *Collection)) {
	c := *s.Collections[ns]
	c.Docs, c.Hidden, c.Indexes = slices.Clone(c.Docs), slices.Clone(c.Hidden), slices.Clone(c.Indexes)
	f(&c)
	s.Collections[ns] = &c
}

// in reports whether a document is in a range.
func (c *Collection) in(r shard.Range, d bson.Doc) bool {
	at, err := c.Key.Append(nil, d)
	b := shard.Bound{Key: at}
	return err == nil && r.Min.Compare(b) <= 0 && b.Compare(r.Max) < 0
}

func (c *Collection) hidden(d bson.Doc) bool {
	return slices.ContainsFunc(c.Hidden, func(h Hidden) bool { return c.in(h.Range, d) })
}

// Read returns all documents to a query with a version. Errors: 13388.
func (s *Shard) Read(ns string, v shard.Version) ([]bson.Doc, error) {
	c := s.Collections[ns]
	if c == nil || !c.Sharded {
		return nil, schema.StaleConfig(ns, s.ID, "not sharded here", v, nil)
	}
	if err := schema.CheckShardVersion(ns, s.ID, v, c.Version); err != nil {
		return nil, err
	}
	if c.Blocked != nil && c.Blocked.Reads {
		return nil, schema.StaleConfig(ns, s.ID, "blocked", v, nil)
	}
	var out []bson.Doc
	for _, d := range c.Docs {
		if !c.hidden(d) {
			out = append(out, d)
		}
	}
	return out, nil
}

// Insert executes an insert with a version. Errors: 13388.
func (s *Shard) Insert(ns string, v shard.Version, d bson.Doc) error {
	c := s.Collections[ns]
	if c == nil || !c.Sharded {
		return schema.StaleConfig(ns, s.ID, "not sharded here", v, nil)
	}
	if err := schema.CheckShardVersion(ns, s.ID, v, c.Version); err != nil {
		return err
	}
	if c.hidden(d) || c.Blocked != nil && (c.Blocked.Whole || c.in(c.Blocked.Range, d)) {
		return schema.StaleConfig(ns, s.ID, "blocked", v, nil)
	}
	s.change(ns, func(c *Collection) { c.Docs = append(c.Docs, d.Clone()) })
	return nil
}

// Position is the position of the last write to a collection.
func (s *Shard) Position(ns string) uint64 {
	if c := s.Collections[ns]; c != nil {
		return uint64(len(c.Docs))
	}
	return 0
}

// Copy copies from the donor the documents of the ranges that are being received.
func (s *Shard) Copy(ns string, donor *Shard) {
	from, c := donor.Collections[ns], s.Collections[ns]
	if from == nil || c == nil {
		return
	}
	s.change(ns, func(c *Collection) {
		for i, h := range c.Hidden {
			if h.Given {
				continue
			}
			c.Docs = slices.DeleteFunc(c.Docs, func(d bson.Doc) bool { return c.in(h.Range, d) })
			for _, d := range from.Docs {
				if c.in(h.Range, d) {
					c.Docs = append(c.Docs, d)
				}
			}
			c.Hidden[i].Copied = int64(donor.Position(ns))
		}
	})
}

// Sweep removes the documents of ranges that have moved away.
func (s *Shard) Sweep(ns string) {
	s.change(ns, func(c *Collection) {
		for _, h := range c.Hidden {
			if h.Given {
				c.Docs = slices.DeleteFunc(c.Docs, func(d bson.Doc) bool { return c.in(h.Range, d) })
			}
		}
		c.Hidden = slices.DeleteFunc(c.Hidden, func(h Hidden) bool { return h.Given })
	})
}
