package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/expire/forecast"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/query/match"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Dry runs: with storageEngine.mayfly.expiry.dryRun, createIndexes and collMod report
// what the rules that they would create would remove, and change nothing.
// createIndexes also notes where a TTL index cannot work on the existing documents.

// takeDryRun removes the request for a dry run from specifications, and returns
// whether one of them had it: then the whole command is a dry run. Errors:
// those of schema.ExpiryOf.
func takeDryRun(specs []bson.Doc) (dry bool, err error) {
	for i, spec := range specs {
		v := spec.Lookup("storageEngine")
		if v.Type != bson.TypeDocument {
			continue
		}
		engine := v.Doc()
		_, asked, err := schema.ExpiryOf(engine)
		if err != nil {
			return false, err
		}
		dry = dry || asked
		rest := schema.WithoutDryRun(engine)
		if len(rest) == len(engine) {
			continue
		}
		var b bson.Builder
		for name, v := range spec.All() {
			if name != "storageEngine" {
				b.Value(name, v)
			} else if rest != nil {
				b.Doc(name, rest)
			}
		}
		specs[i] = b.Finish()
	}
	return dry, nil
}

// dryRunIndexes answers a createIndexes that is a dry run; c is nil if there
// is no collection.
func (n *Node) dryRunIndexes(ctx context.Context, op *command.Op, c *catalog.Collection, specs []bson.Doc) error {
	settings, count := &schema.Options{ExpireAfterSeconds: schema.NoExpiry}, 0
	var existing []*schema.Index
	if c != nil {
		settings = c.Settings
		for _, ix := range c.Indexes() {
			existing = append(existing, ix.Index)
		}
		count = len(existing)
		if settings.Clustered != nil {
			count--
		}
	}
	now := n.Catalog.Clock
	for i, s := range specs {
		specs[i] = schema.WatchedFrom(s, now.Stamped())
	}
	fresh, _, err := schema.ResolveIndexes(namespace(op), settings, existing, specs)
	if err != nil {
		return err
	}
	var rules []*schema.Rule
	var notes []string
	for _, ix := range fresh {
		if r := schema.IndexRule(ix, &settings.Expiry); r != nil {
			rules = append(rules, r)
		}
		note, err := n.noteTTL(ctx, c, ix)
		if err != nil {
			return err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	op.Reply.Int32("numIndexesBefore", int32(count)).Int32("numIndexesAfter", int32(count)).
		Bool("createdCollectionAutomatically", false).Bool("dryRun", true)
	if err := n.appendForecasts(ctx, op.Reply, c, rules); err != nil {
		return err
	}
	if notes != nil {
		op.Reply.String("note", strings.Join(notes, "\n\n"))
	}
	return nil
}

// appendForecasts writes what each rule would remove, as the array expiry.
func (n *Node) appendForecasts(ctx context.Context, b *bson.Builder, c *catalog.Collection, rules []*schema.Rule) error {
	b.OpenArray("expiry")
	for i, r := range rules {
		f, err := forecast.OfDocuments(ctx, n.Exec, c, r, n.Catalog.Clock.ExpiryTime())
		if err != nil {
			return err
		}
		name := "expireAfterSeconds" // of a time-series collection
		if r.Index != nil {
			name = r.Index.Name
		}
		b.OpenDoc(bson.Index(i)).String("rule", name).String("kind", r.Kind.String()).Int("expireAfterSeconds", r.Seconds)
		f.Append(b)
		b.Close()
	}
	b.Close()
	return nil
}

// asksDryRun reports whether a collMod is a dry run of expiry.
func asksDryRun(a *command.Args) bool {
	index, ok := a.Struct("index")
	return schema.AsksDryRun(a.Doc("storageEngine")) || ok && schema.AsksDryRun(index.Doc("storageEngine"))
}

// dryRunCollMod answers a collMod that is a dry run: with the rule of the index
// that it is about, or with all rules of the collection.
func (n *Node) dryRunCollMod(ctx context.Context, op *command.Op, m *collModification) error {
	c, err := n.existing(op, "ns does not exist")
	if err != nil {
		return err
	}
	change, err := m.decide(c)
	if err != nil {
		return err
	}
	o, err := schema.LoadOptions(change.Options)
	if err != nil {
		return err
	}
	index, about := m.args.Struct("index")
	named := ""
	if about {
		ix, err := modifiedIndex(c, &index)
		if err != nil {
			return err
		}
		named = ix.Name
	}
	var rules []*schema.Rule
	if r := schema.SeriesRule(o); r != nil && !about {
		rules = append(rules, r)
	}
	for _, have := range c.Indexes() {
		ix := have.Index
		if to := change.Indexes[ix.Name]; to != nil {
			ix = to
		}
		r := schema.IndexRule(ix, &o.Expiry)
		if have.Clusters() {
			r = schema.CollectionRule(o, ix)
		}
		if r != nil && (!about || ix.Name == named) {
			rules = append(rules, r)
		}
	}
	op.Reply.Fields(m.reply.Finish()).Bool("dryRun", true)
	return n.appendForecasts(ctx, op.Reply, c, rules)
}

// ttlSample is how many documents are sampled to check whether a TTL index can
// work.
const ttlSample = 100

// noteTTL returns what keeps documents of a collection from expiring by an
// index, judging by a sample; "" for nothing.
func (n *Node) noteTTL(ctx context.Context, c *catalog.Collection, ix *schema.Index) (string, error) {
	switch {
	case !ix.IsTTL() || ix.CountsFromWrite() || c == nil || c.IsTimeseries():
		return "", nil
	case schema.IndexRule(ix, &schema.Expiry{}) == nil:
		return fmt.Sprintf("TTL index '%s': documents do not expire by an index of type '%s'.", ix.Name, ix.Plugin), nil
	}
	all, err := match.Parse(bson.Empty, nil)
	if err != nil {
		return "", err
	}
	q := &exec.Query{}
	q.Filter, q.Limit = all, ttlSample
	cur, err := n.Exec.Find(ctx, c, q)
	if err != nil {
		return "", err
	}
	defer cur.Close()
	sampled, dateless := 0, 0
	found := map[string]bool{}
	for {
		doc, err := cur.Next(ctx)
		if err != nil {
			return "", err
		}
		if doc == nil {
			break
		}
		sampled++
		date, types := typesAt(doc, ix.Parts[0].Path)
		if !date && len(types) > 0 {
			dateless++
			for _, t := range types {
				found[t] = true
			}
		}
	}
	if dateless == 0 {
		return "", nil
	}
	return fmt.Sprintf("TTL index '%s': %d of %d sampled documents have no Date in '%s' (but %s), and will not expire.",
		ix.Name, dateless, sampled, ix.Parts[0].Path, strings.Join(slices.Sorted(maps.Keys(found)), ", ")), nil
}

// noteSpec is noteTTL for the index that a specification has made.
func (n *Node) noteSpec(ctx context.Context, c *catalog.Collection, spec bson.Doc) (string, error) {
	if !spec.Has("expireAfterSeconds") {
		return "", nil
	}
	ix := c.Index(spec.Lookup("name").Str())
	if ix == nil {
		return "", nil
	}
	return n.noteTTL(ctx, c, ix.Index)
}

// typesAt returns whether there is a date at a path, and which other types
// there are.
func typesAt(doc bson.Doc, path string) (date bool, types []string) {
	_ = exec.Elements(doc, path, func(v bson.Value) error {
		if v.Type == bson.TypeDate {
			date = true
		} else {
			types = append(types, v.Type.String())
		}
		return nil
	})
	return date, types
}
