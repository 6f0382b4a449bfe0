package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
)

// Section is one top-level field of serverStatus, contributed by the part of
// the server that it is about.
type Section struct {
	Name string
	// OnDemand sections are left out unless the client asks for them by name.
	OnDemand bool
	// Value returns the section; Missing leaves it out.
	Value func(ctx context.Context, op *Op) bson.Value
}

// Status is the registry of serverStatus's sections, and of the documents in
// its section "metrics".
type Status struct {
	mu       sync.Mutex
	sections map[string]Section
	metrics  map[string]func(b *bson.Builder)
}

// NewStatus makes an empty registry.
func NewStatus() *Status {
	return &Status{sections: map[string]Section{}, metrics: map[string]func(*bson.Builder){}}
}

// Register adds a section; a name that is taken is a bug and panics.
func (s *Status) Register(sections ...Section) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sec := range sections {
		if _, taken := s.sections[sec.Name]; taken {
			panic(fmt.Sprintf("command: section %q is registered twice", sec.Name))
		}
		s.sections[sec.Name] = sec
	}
}

// Document registers a section that is a document, written by fill.
func (s *Status) Document(name string, fill func(b *bson.Builder)) {
	s.Register(Section{Name: name, Value: func(context.Context, *Op) bson.Value {
		var b bson.Builder
		fill(&b)
		return bson.Document(b.Finish())
	}})
}

// Metric registers a document within "metrics", written by fill: "ttl", "repl".
// A dot in the name makes it one level deeper: "query.sort".
func (s *Status) Metric(name string, fill func(b *bson.Builder)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.metrics[name]; taken {
		panic(fmt.Sprintf("command: metric %q is registered twice", name))
	}
	s.metrics[name] = fill
}

// Sections returns the sections in order of their names.
func (s *Status) Sections() []Section {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Section, 0, len(s.sections))
	for _, sec := range s.sections {
		all = append(all, sec)
	}
	slices.SortFunc(all, func(a, b Section) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// AppendMetrics writes the fields of the section "metrics".
func (s *Status) AppendMetrics(b *bson.Builder) {
	s.mu.Lock()
	names := make([]string, 0, len(s.metrics))
	for n := range s.metrics {
		names = append(names, n)
	}
	s.mu.Unlock()
	slices.Sort(names)
	open := ""
	for _, name := range names {
		parent, leaf, nested := strings.Cut(name, ".")
		if !nested {
			parent, leaf = "", name
		}
		if open != parent {
			if open != "" {
				b.Close()
			}
			if parent != "" {
				b.OpenDoc(parent)
			}
			open = parent
		}
		b.OpenDoc(leaf)
		s.metric(name)(b)
		b.Close()
	}
	if open != "" {
		b.Close()
	}
}

func (s *Status) metric(name string) func(*bson.Builder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.metrics[name]
}

// appendReplicated counts the operations of other members that this one has applied.
func (d *Dispatcher) appendReplicated(b *bson.Builder) {
	var n catalog.OperationCounts
	if d.Member != nil {
		n = d.Member.Replicated()
	}
	b.Int64("insert", n.Inserted).Int64("query", 0).Int64("update", n.Updated).
		Int64("delete", n.Deleted).Int64("getmore", 0).Int64("command", n.Commands)
}

// registerStatus adds the dispatcher's own sections.
func (d *Dispatcher) registerStatus() {
	s, m := d.Status, &d.Metrics
	s.Document("opcounters", m.AppendOpcounters)
	s.Document("opcountersRepl", d.appendReplicated)
	s.Register(Section{Name: "opLatencies", Value: func(context.Context, *Op) bson.Value {
		var b bson.Builder
		m.AppendLatencies(&b)
		return bson.Document(b.Finish())
	}})
	s.Document("logicalSessionRecordCache", d.Sessions.appendStatus)
	s.Document("asserts", func(b *bson.Builder) {
		b.Int("regular", m.AssertRegular.Load()).Int32("warning", 0).Int32("msg", 0).Int("user", m.AssertUser.Load()).
			Int32("tripwire", 0).Int32("rollovers", 0)
	})
	s.Document("globalLock", d.appendGlobalLock)
	s.Document("metrics", s.AppendMetrics)
	s.Metric("commands", func(b *bson.Builder) { m.AppendCommands(b, d.Registry) })
	s.Metric("document", m.AppendDocument)
	s.Metric("operation", m.AppendOperation)
	s.Metric("queryExecutor", m.AppendQueryExecutor)
	s.Metric("cursor", d.Cursors.AppendMetrics)
}

// appendGlobalLock writes the numbers of running operations and of connections.
func (d *Dispatcher) appendGlobalLock(b *bson.Builder) {
	var clients, readers, writers int32
	for _, c := range d.Clients.All() {
		clients++
		switch op := c.Current(); {
		case op == nil:
		case op.Command.Flags&Writes != 0:
			writers++
		default:
			readers++
		}
	}
	b.Int64("totalTime", 0)
	b.OpenDoc("currentQueue").Int32("total", 0).Int32("readers", 0).Int32("writers", 0).Close()
	b.OpenDoc("activeClients").Int32("total", clients).Int32("readers", readers).Int32("writers", writers).Close()
}
