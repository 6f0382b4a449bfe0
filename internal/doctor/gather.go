package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
)

const (
	// patience bounds each question.
	patience = 5 * time.Second
	// tired is after how many questions without an answer a server is asked no more.
	tired = 3
	// together is how many servers are asked at a time.
	together = 16
	// maxServers and maxCollections bound what is looked at; that there is more is a finding.
	maxServers     = 1000
	maxCollections = 10000
	// maxDocuments bounds the documents of one reply.
	maxDocuments = 100000
)

// Options are what is examined.
type Options struct {
	// Addresses are those of a server, of members of a set, or of routers: the first that
	// answers tells of the others.
	Addresses []string
	Open      Open
	// UnusedFor is for how long an index was not used that is told as such.
	UnusedFor time.Duration
	// Backups are the newest backups, and BackupAge how old one may be; none where nothing is
	// known of them.
	Backups   []Backup
	BackupAge time.Duration
	// Now is the time of the clock that others are compared with; nil: the system's.
	Now func() time.Time
}

// Backup is the newest backup of a server, set or cluster.
type Backup struct {
	Of string
	At time.Time
}

// Report is what was found.
type Report struct {
	At time.Time
	// What is examined: "the replica set rs0", and the servers that were asked.
	What     string
	Servers  []string
	Findings []Finding
}

// Examine asks a server, and those that it belongs to. Errors: that of the last address if no
// server answers at any; the cause of ctx.
func Examine(ctx context.Context, o Options) (*Report, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	f := &facts{o: &o, now: o.Now()}
	defer f.close()
	what, err := f.gather(ctx)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r := &Report{At: f.now, What: what, Findings: diagnose(f)}
	for _, s := range f.servers {
		r.Servers = append(r.Servers, s.address)
	}
	return r, nil
}

func (f *facts) close() {
	for _, s := range f.servers {
		if s.conn != nil {
			_ = s.conn.Close() // nothing was written
		}
	}
}

// gather asks all servers, and returns what they are.
func (f *facts) gather(ctx context.Context) (what string, err error) {
	first, err := f.first(ctx)
	if err != nil {
		return "", err
	}
	switch {
	case first.router:
		what = "the cluster of the router " + first.address
		f.askRouter(ctx, first)
		f.askCollections(ctx, first)
	case first.set != "":
		what = "the replica set " + first.set
		f.askSet(ctx, first.set, []string{first.address})
	default:
		what = "the server " + first.address
		f.askCollections(ctx, first)
	}
	for _, s := range f.sets {
		f.askStatus(ctx, s)
		if f.cluster == nil && !s.primaryElsewhere() { // rules work on the primary alone
			if d := s.door(); d != nil {
				f.askCollections(ctx, d)
			}
		}
		f.askUse(ctx, s)
	}
	return what, nil
}

// first asks the first server that answers.
func (f *facts) first(ctx context.Context) (*server, error) {
	last := errors.New("no address is given")
	for _, a := range f.o.Addresses {
		s := f.ask(ctx, a)
		if s.err == nil {
			f.servers = append(f.servers, s)
			return s, nil
		}
		last = fmt.Errorf("%s: %w", a, s.err)
	}
	return nil, last
}

// ask connects to a server, and asks what is asked of each.
func (f *facts) ask(ctx context.Context, address string) *server {
	s := &server{address: address}
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	if s.conn, s.err = f.o.Open(ctx, address); s.err != nil {
		return s
	}
	asked := f.o.Now()
	if s.hello, s.err = s.conn.Run(ctx, "admin", command("hello", bson.Int32(1))); s.err != nil {
		return s
	}
	s.within = f.o.Now().Sub(asked) / 2
	if t, ok := moment(s.hello, "localTime"); ok {
		s.ahead = t.Sub(asked.Add(s.within))
	}
	s.router, s.set = text(s.hello, "msg") == "isdbgrid", text(s.hello, "setName")
	return s
}

// errTired is why a server is asked no more.
var errTired = errors.New("not asked, as it did not answer other questions in time")

// run asks one question. What is not answered is noted: reply is nil then.
func (f *facts) run(ctx context.Context, s *server, db, what string, body bson.Doc) bson.Doc {
	if s.conn == nil || s.err != nil {
		return nil
	}
	if s.unanswered >= tired {
		f.miss(s.address, what, errTired)
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	reply, err := s.conn.Run(soon, db, body)
	if err == nil {
		return reply
	}
	f.miss(s.address, what, err)
	if _, answered := codeOf(err); !answered { // the connection is of no use any more
		s.unanswered++
		f.reopen(ctx, s)
	}
	return nil
}

// reopen connects to a server anew.
func (f *facts) reopen(ctx context.Context, s *server) {
	_ = s.conn.Close() // it is broken
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if s.conn, s.err = f.o.Open(ctx, s.address); s.err != nil {
		s.conn = nil
	}
}

func (f *facts) miss(where, what string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unseen = append(f.unseen, unseen{where, what, err})
}

// list asks for a cursor, and reads all of it.
func (f *facts) list(ctx context.Context, s *server, db, what string, body bson.Doc) (all []bson.Doc) {
	reply := f.run(ctx, s, db, what, body)
	for name := "firstBatch"; reply != nil; name = "nextBatch" {
		all = append(all, elements(reply, "cursor", name)...)
		id := bson.ClampToInt64(at(reply, "cursor", "id"))
		_, coll, _ := strings.Cut(text(reply, "cursor", "ns"), ".")
		if id == 0 {
			break
		}
		if len(all) > maxDocuments {
			f.miss(s.address, what, errors.New("there are too many to look at all"))
			break
		}
		reply = f.run(ctx, s, db, what, new(bson.Builder).Int64("getMore", id).String("collection", coll).Finish())
	}
	return all
}

// command is the body of a command without further arguments.
func command(name string, v bson.Value) bson.Doc { return new(bson.Builder).Value(name, v).Finish() }

// stage is the body of an aggregate with one stage.
func stage(coll, name string, arg bson.Doc) bson.Doc {
	b := new(bson.Builder).String("aggregate", coll).OpenArray("pipeline").OpenDoc("0").Doc(name, arg).Close().Close().OpenDoc("cursor").Close()
	preferred.Append(b)
	return b.Finish()
}

// What is asked that needs another role than clusterMonitor.
const (
	collectionsOf = "the collections of "
	isSpread      = " is spread"
)

// preferred is who is asked by a router; whoever is asked directly answers.
var preferred = client.ReadPreference{Mode: client.PrimaryPreferred}

// askState asks a server for what is told of each.
func (f *facts) askState(ctx context.Context, s *server) {
	s.status = f.run(ctx, s, "admin", "serverStatus", command("serverStatus", bson.Int32(1)))
	log := f.run(ctx, s, "admin", "getLog", command("getLog", bson.String("startupWarnings")))
	for _, line := range texts(log, "log") {
		if d, err := bson.ParseJSON(line); err == nil && text(d, "msg") != "" {
			s.warnings = append(s.warnings, text(d, "msg"))
		}
	}
}

// askSet asks the members of a set: those at the addresses, and those that they name.
func (f *facts) askSet(ctx context.Context, name string, addresses []string) {
	s := &set{name: name}
	f.sets = append(f.sets, s)
	for len(addresses) > 0 {
		if len(f.servers)+len(addresses) > maxServers {
			f.miss(name, "its members", errors.New("there are too many servers to look at all"))
			return
		}
		asked := make([]*server, len(addresses))
		each(len(addresses), func(i int) {
			if asked[i] = f.known(addresses[i]); asked[i] == nil {
				asked[i] = f.ask(ctx, addresses[i])
			}
		})
		addresses = nil
		for _, m := range asked {
			if f.known(m.address) == nil {
				f.servers = append(f.servers, m)
			}
			m.set = name
			s.members = append(s.members, m)
		}
		for _, m := range asked {
			for _, field := range []string{"hosts", "passives"} {
				for _, h := range texts(m.hello, field) {
					if s.member(h) == nil && !slices.Contains(addresses, h) && h != text(m.hello, "me") {
						addresses = append(addresses, h)
					}
				}
			}
		}
	}
}

// member returns the member at an address, by which others know it or by which it was asked.
func (s *set) member(address string) *server {
	for _, m := range s.members {
		if m.address == address || text(m.hello, "me") == address {
			return m
		}
	}
	return nil
}

// known returns the server at an address, or nil.
func (f *facts) known(address string) *server {
	for _, s := range f.servers {
		if s.address == address {
			return s
		}
	}
	return nil
}

// primary is the primary of the set, nil if there is none.
func (s *set) primary() *server {
	for _, m := range s.members {
		if m.err == nil && truth(m.hello, "isWritablePrimary") {
			return m
		}
	}
	return nil
}

// door is the member that tells of the set: the primary or, without one, one that answers.
func (s *set) door() *server {
	if p := s.primary(); p != nil {
		return p
	}
	for _, m := range s.members {
		if m.err == nil {
			return m
		}
	}
	return nil
}

// askStatus asks for the state of a set.
func (f *facts) askStatus(ctx context.Context, s *set) {
	each(len(s.members), func(i int) { f.askState(ctx, s.members[i]) })
	d := s.door()
	if d == nil {
		return
	}
	s.status = f.run(ctx, d, "admin", "replSetGetStatus", command("replSetGetStatus", bson.Int32(1)))
	if reply := f.run(ctx, d, "admin", "replSetGetConfig", command("replSetGetConfig", bson.Int32(1))); reply != nil {
		if c := at(reply, "config"); c.Type == bson.TypeDocument {
			s.config = c.Doc()
		}
	}
}

// askRouter asks a router for its cluster, and all sets of that.
func (f *facts) askRouter(ctx context.Context, r *server) {
	c := &cluster{spread: map[string]bson.Doc{}, drains: map[string]bson.Doc{}}
	f.cluster = c
	shardMap := f.run(ctx, r, "admin", "getShardMap", command("getShardMap", bson.Int32(1)))
	f.askState(ctx, r)
	find := func(coll string, filter bson.Doc) []bson.Doc {
		return f.list(ctx, r, "config", "config."+coll, new(bson.Builder).String("find", coll).Doc("filter", filter).Finish())
	}
	all := new(bson.Builder).Finish()
	c.shards, c.tags = find("shards", all), find("tags", all)
	if d := find("settings", new(bson.Builder).String("_id", "balancer").Finish()); len(d) > 0 {
		c.settings = d[0]
	}
	c.balancer = f.run(ctx, r, "admin", "balancerStatus", command("balancerStatus", bson.Int32(1)))
	for _, d := range c.shards {
		if id := text(d, "_id"); truth(d, "draining") {
			c.drains[id] = f.run(ctx, r, "admin", "shardDrainingStatus", command("shardDrainingStatus", bson.String(id)))
		}
	}
	for i, d := range find("collections", new(bson.Builder).OpenDoc("unsplittable").Bool("$ne", true).Close().Finish()) {
		if i == maxCollections {
			f.miss(r.address, "how collections are spread", errors.New("there are too many to look at all"))
			break
		}
		ns := text(d, "_id")
		c.spread[ns] = f.run(ctx, r, "admin", "how "+ns+isSpread, command("balancerCollectionStatus", bson.String(ns)))
	}
	for id, v := range document(shardMap, "map").All() {
		if v.Type != bson.TypeString {
			continue
		}
		at, err := client.ParseSetString(v.Str())
		if err != nil {
			f.miss(id, "its servers", err)
			continue
		}
		if !slices.ContainsFunc(f.sets, func(s *set) bool { return s.name == at.Name }) {
			f.askSet(ctx, at.Name, at.Hosts)
		}
	}
}

// document is a field that is a document, or an empty one.
func document(d bson.Doc, path ...string) bson.Doc {
	if v := at(d, path...); v.Type == bson.TypeDocument {
		return v.Doc()
	}
	return new(bson.Builder).Finish()
}

// internal are the databases of the server itself.
var internal = []string{"admin", "config", "local"}

// askCollections asks a server, or a router, for the collections of clients: their rules and
// indexes.
func (f *facts) askCollections(ctx context.Context, s *server) {
	if s.status == nil {
		f.askState(ctx, s)
	}
	names := f.run(ctx, s, "admin", "listDatabases", new(bson.Builder).Int32("listDatabases", 1).Bool("nameOnly", true).Finish())
	for _, d := range elements(names, "databases") {
		db := text(d, "name")
		if slices.Contains(internal, db) {
			continue
		}
		b := new(bson.Builder).Int32("listCollections", 1)
		preferred.Append(b)
		for _, c := range f.list(ctx, s, db, collectionsOf+db, b.Finish()) {
			name, kind := text(c, "name"), text(c, "type")
			if kind == "view" || strings.HasPrefix(name, "system.") {
				continue
			}
			if len(f.collections) == maxCollections {
				f.miss(s.address, "collections", errors.New("there are too many to look at all"))
				return
			}
			f.askCollection(ctx, s, db, name)
		}
	}
}

func (f *facts) askCollection(ctx context.Context, s *server, db, name string) {
	c := &collection{ns: db + "." + name}
	f.collections = append(f.collections, c)
	c.rules = f.list(ctx, s, db, "the rules of "+c.ns, stage(name, "$expiryStats", new(bson.Builder).Finish()))
	for _, d := range f.list(ctx, s, db, "the indexes of "+c.ns, stage(name, "$indexStats", new(bson.Builder).Finish())) {
		c.use(d)
	}
}

// use adds what a server says of an index.
func (c *collection) use(d bson.Doc) {
	ops, name := bson.ClampToInt64(at(d, "accesses", "ops")), text(d, "name")
	since, ok := moment(d, "accesses", "since")
	if !ok || truth(d, "building") {
		return
	}
	i := slices.IndexFunc(c.indexes, func(u indexUse) bool { return u.name == name })
	if i < 0 {
		c.indexes = append(c.indexes, indexUse{name: name, spec: document(d, "spec"), ops: ops, since: since})
		return
	}
	c.indexes[i].ops += ops
	if since.After(c.indexes[i].since) {
		c.indexes[i].since = since
	}
}

// askUse asks the other members of a set how often each index was used there; the door, or the
// primary by the router, has told. Where one does not answer, nothing is known of the indexes.
func (f *facts) askUse(ctx context.Context, s *set) {
	told := s.door()
	for _, m := range s.members {
		for _, c := range f.collections {
			if m.err != nil {
				c.indexes = nil
			}
			if m.err != nil || m == told {
				continue
			}
			db, name, _ := strings.Cut(c.ns, ".")
			for _, d := range f.list(ctx, m, db, "the indexes of "+c.ns, stage(name, "$indexStats", new(bson.Builder).Finish())) {
				c.use(d)
			}
		}
	}
}

// each runs n questions, some of them at a time, and waits for all.
func each(n int, f func(i int)) {
	var running sync.WaitGroup
	slots := make(chan struct{}, together)
	for i := range n {
		slots <- struct{}{}
		running.Go(func() { defer func() { <-slots }(); f(i) })
	}
	running.Wait()
}

// sorted are the keys of a map in order.
func sorted[K cmp.Ordered, V any](m map[K]V) []K {
	var all []K
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}
