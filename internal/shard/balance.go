package shard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// imbalance is how many times the size of a chunk two shards of a zone differ by
// before data moves between them. (Manual, "Sharded Cluster Balancer")
const imbalance = 3

// Member is a shard as the balancer sees it.
type Member struct {
	ID       string
	Draining bool
	Zones    []string
}

// Balanced is a sharded collection as the balancer sees it.
type Balanced struct {
	Map   *Map
	Zones *Zones
	// Bytes is the size of the documents that each shard owns.
	Bytes    map[string]int64
	MaxChunk int64 // bytes; 0 for the cluster's default
	// Reasons why the balancer does not move the collection's chunks:
	NoBalance    bool // config.collections: noBalance
	NoMigrations bool // config.collections: allowMigrations or permitMigrations is false
	NoIndex      bool // no index supports the shard key, and the layout is not by its hash
	// Defragmenting says that small chunks are being merged.
	Defragmenting bool
}

// Move moves a range to another shard: up to MaxBytes from its lower bound, 0 for all
// of it.
type Move struct {
	Namespace string
	Range
	From, To string
	MaxBytes int64
	// ForceJumbo moves the range even if it is larger than a chunk should be, which
	// blocks writes to it meanwhile.
	ForceJumbo bool
	Why        Violation
}

// Cut is a chunk that must be split first, since a zone ends inside it.
type Cut struct {
	Namespace string
	Chunk     Range
	At        []Bound
}

// Violation is a problem of a collection's distribution, in the words of
// balancerCollectionStatus; "" for none.
type Violation string

// The violations, the most severe first.
const (
	Defragmenting  Violation = "defragmentingChunks"
	Draining       Violation = "draining"
	ZoneViolation  Violation = "zoneViolation"
	ChunkImbalance Violation = "chunksImbalance"
)

// Round returns what the balancer does next: chunks to split, then moves to make in
// parallel, no two of which share a shard (invariant pairs).
// Collections come in the order of their names.
func Round(collections []Balanced, members []Member, s Settings) (cuts []Cut, moves []Move) {
	if s.Off {
		return nil, nil
	}
	collections = slices.Clone(collections)
	slices.SortFunc(collections, func(a, b Balanced) int { return strings.Compare(a.Map.Namespace, b.Map.Namespace) })
	busy := map[string]bool{}
	for i := range collections {
		c := &collections[i]
		if c.held() != "" {
			continue
		}
		if cut := c.cuts(); len(cut) > 0 {
			cuts = append(cuts, cut...)
			continue // first split its chunks at the ends of zones
		}
		r := round{c, members, s, busy, nil}
		r.drain()
		r.zones()
		r.sizes()
		moves = append(moves, r.moves...)
	}
	return cuts, moves
}

// held returns why the balancer does not move a collection's chunks, or "".
func (c *Balanced) held() string {
	switch {
	case c.NoBalance:
		return "balancing is disabled for the collection (noBalance)"
	case c.NoMigrations:
		return "migrations are not allowed for the collection"
	case c.NoIndex:
		return "no index supports the shard key " + c.Map.key.String()
	case c.Defragmenting:
		return "its chunks are being defragmented"
	}
	return ""
}

// cuts returns the chunks inside which a zone ends.
func (c *Balanced) cuts() (out []Cut) {
	for _, z := range c.Zones.All() {
		for _, b := range []Bound{z.Min, z.Max} {
			chunk := c.Map.Find(b.Key).Range
			inside := chunk.Min.Compare(b) < 0 && b.Compare(chunk.Max) < 0
			if inside && (len(out) == 0 || !out[len(out)-1].Chunk.Same(chunk)) {
				out = append(out, Cut{c.Map.Namespace, chunk, c.Zones.Within(chunk)})
			}
		}
	}
	return out
}

// round is the work of the balancer on one collection.
type round struct {
	c       *Balanced
	members []Member
	set     Settings
	busy    map[string]bool // shards that take part in a move
	moves   []Move
}

func (r *round) maxChunk() int64 { return cmp.Or(r.c.MaxChunk, r.set.ChunkSize) }

// inZone reports whether a shard may hold chunks of a zone; any shard may hold
// chunks that are in no zone.
func (m *Member) inZone(zone string) bool { return zone == "" || slices.Contains(m.Zones, zone) }

// recipient returns the shard of a zone that has the least data of the
// collection and may take more, or nil.
func (r *round) recipient(zone string) *Member {
	var best *Member
	for i := range r.members {
		m := &r.members[i]
		if !r.busy[m.ID] && !m.Draining && m.inZone(zone) && (best == nil || r.c.Bytes[m.ID] < r.c.Bytes[best.ID]) {
			best = m
		}
	}
	return best
}

func (r *round) move(c Chunk, to string, maxBytes int64, why Violation) {
	r.busy[c.Shard], r.busy[to] = true, true
	r.moves = append(r.moves, Move{
		Namespace: r.c.Map.Namespace, Range: c.Range, From: c.Shard, To: to, MaxBytes: maxBytes,
		ForceJumbo: why == Draining || r.set.MoveJumbo, Why: why,
	})
}

// movable reports whether the balancer may move a chunk.
func (r *round) movable(c *Chunk) bool { return !c.Jumbo || r.set.MoveJumbo }

// drain moves chunks off shards that are being removed.
func (r *round) drain() {
	for i := range r.members {
		m := &r.members[i]
		if !m.Draining || r.busy[m.ID] {
			continue
		}
		for c := range r.c.Map.anyOn(m.ID) {
			if !r.movable(&c) {
				continue
			}
			if to := r.recipient(r.c.Zones.Of(c.Range)); to != nil {
				r.move(c, to.ID, 0, Draining)
				break
			}
		}
	}
}

// zones moves chunks into their zones.
func (r *round) zones() {
	for c := range r.c.misplaced(r.members) {
		if r.busy[c.Shard] || !r.movable(&c) {
			continue
		}
		if to := r.recipient(r.c.Zones.Of(c.Range)); to != nil {
			r.move(c, to.ID, 0, ZoneViolation)
		}
	}
}

// misplaced iterates over the chunks of a zone that are on none of its shards.
func (c *Balanced) misplaced(members []Member) func(func(Chunk) bool) {
	return func(yield func(Chunk) bool) {
		for _, z := range c.Zones.All() {
			for chunk := range c.Map.Overlapping(z.Range) {
				i := slices.IndexFunc(members, func(m Member) bool { return m.ID == chunk.Shard })
				if i >= 0 && !members[i].inZone(z.Name) && z.Contains(chunk.Range) && !yield(chunk) {
					return
				}
			}
		}
	}
}

// zoneNames returns the distinct zones of the collection, and "" for chunks in none.
func (c *Balanced) zoneNames() []string {
	names := []string{""}
	for _, z := range c.Zones.All() {
		names = append(names, z.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sizes balances the data of each zone.
func (r *round) sizes() {
	for _, zone := range r.c.zoneNames() {
		fullest, ideal := r.c.fullest(r.members, zone), r.c.ideal(r.members, zone)
		emptiest := slices.DeleteFunc(slices.Clone(r.members), func(m Member) bool { return m.Draining || !m.inZone(zone) })
		slices.SortStableFunc(emptiest, func(a, b Member) int { return cmp.Compare(r.c.Bytes[a.ID], r.c.Bytes[b.ID]) })
		for _, from := range fullest {
			for len(emptiest) > 0 && r.busy[emptiest[0].ID] {
				emptiest = emptiest[1:]
			}
			if len(emptiest) == 0 {
				break
			}
			to := &emptiest[0]
			if r.busy[from.ID] || !r.c.uneven(ideal, from.ID, to.ID, r.maxChunk()) {
				continue
			}
			for c := range r.c.Map.anyOn(from.ID) {
				if r.movable(&c) && r.c.Zones.Of(c.Range) == zone {
					r.move(c, to.ID, r.maxChunk(), ChunkImbalance)
					break
				}
			}
		}
	}
}

// fullest returns the shards of a zone, those with the most data first.
func (c *Balanced) fullest(members []Member, zone string) []Member {
	in := slices.DeleteFunc(slices.Clone(members), func(m Member) bool { return !m.inZone(zone) })
	slices.SortStableFunc(in, func(a, b Member) int { return cmp.Compare(c.Bytes[b.ID], c.Bytes[a.ID]) })
	return in
}

// ideal is the size that each shard of a zone would have if all had the same.
func (c *Balanced) ideal(members []Member, zone string) int64 {
	var total, n int64
	for i := range members {
		if members[i].inZone(zone) && !members[i].Draining {
			total, n = total+c.Bytes[members[i].ID], n+1
		}
	}
	return total / max(n, 1)
}

// uneven reports whether two shards of a zone differ so much that data should move from
// one to the other.
func (c *Balanced) uneven(ideal int64, from, to string, maxChunk int64) bool {
	return c.Bytes[from] > ideal && c.Bytes[to] < ideal && c.Bytes[from]-c.Bytes[to] >= imbalance*maxChunk
}

// Status is the result of balancerCollectionStatus: the violation, "" for none; the
// shards and sizes that show it; and what prevents the balancer from fixing it, "" for
// nothing.
type Status struct {
	Violation     Violation
	Details, Held string
}

// Status reports whether a collection is balanced, and if not, why. minute is that of the day,
// in the config servers' local time.
func (c *Balanced) Status(members []Member, s Settings, minute int) Status {
	st := c.violation(members, s)
	if st.Violation == "" {
		return st
	}
	st.Held = c.held()
	switch {
	case st.Held != "":
	case s.Off:
		st.Held = "the balancer is stopped"
	case !s.Active(minute):
		st.Held = "it is not within the balancer's active window, " + s.Window.String()
	}
	return st
}

func (c *Balanced) violation(members []Member, s Settings) Status {
	if c.Defragmenting {
		return Status{Violation: Defragmenting, Details: "small chunks are being merged"}
	}
	for _, m := range members {
		if n := c.Map.ChunksOn(m.ID); m.Draining && n > 0 {
			return Status{Violation: Draining, Details: fmt.Sprintf("%s is draining and has %d chunks, %d of them jumbo", m.ID, n, c.jumbo(m.ID))}
		}
	}
	if cuts := c.cuts(); len(cuts) > 0 {
		return Status{Violation: ZoneViolation, Details: "a zone ends inside chunk " + c.Map.key.RangeText(cuts[0].Chunk)}
	}
	for chunk := range c.misplaced(members) {
		return Status{Violation: ZoneViolation, Details: fmt.Sprintf("chunk %s of zone %s is on %s", c.Map.key.RangeText(chunk.Range), c.Zones.Of(chunk.Range), chunk.Shard)}
	}
	size := cmp.Or(c.MaxChunk, s.ChunkSize)
	for _, zone := range c.zoneNames() {
		r := round{c: c, members: members}
		to := r.recipient(zone)
		if to == nil {
			continue
		}
		ideal := c.ideal(members, zone)
		for _, from := range c.fullest(members, zone) {
			if !c.uneven(ideal, from.ID, to.ID, size) {
				break
			}
			chunks, jumbo := c.count(from.ID, zone)
			if chunks == 0 {
				continue // its data belongs to another zone
			}
			st := Status{Violation: ChunkImbalance, Details: fmt.Sprintf("%s has %d bytes, %s %d; they may differ by %d", from.ID, c.Bytes[from.ID], to.ID, c.Bytes[to.ID], imbalance*size)}
			if chunks == jumbo && !s.MoveJumbo {
				st.Details += fmt.Sprintf("; all %d chunks that %s may give are jumbo", jumbo, from.ID)
			}
			return st
		}
	}
	return Status{}
}

// count counts the chunks of a shard in a zone, and those among them that are
// jumbo.
func (c *Balanced) count(shard, zone string) (chunks, jumbo int) {
	for chunk := range c.Map.chunksOn(shard) {
		if c.Zones.Of(chunk.Range) != zone {
			continue
		}
		chunks++
		if chunk.Jumbo {
			jumbo++
		}
	}
	return chunks, jumbo
}

// jumbo counts the jumbo chunks of a shard.
func (c *Balanced) jumbo(shard string) (n int) {
	for chunk := range c.Map.chunksOn(shard) {
		if chunk.Jumbo {
			n++
		}
	}
	return n
}
