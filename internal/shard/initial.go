package shard

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Bounds of the number of chunks that a collection starts with.
const (
	maxInitialPerShard = 8192
	maxInitial         = 1_000_000
	// chunksPerShard is the default number of chunks per shard if the first field is
	// hashed and the collection empty. (Manual, "Hashed Sharding")
	chunksPerShard = 2
)

// Initial is the input for the initial chunks of a collection. The defaults are
// those of the manual's page "Hashed Sharding": two chunks for each shard, and
// numInitialChunks is honoured.
type Initial struct {
	Key     *Key
	Empty   bool     // the collection has no documents
	Primary string   // the primary shard of the database
	Shards  []string // those that are not draining, in the order of config.shards
	Zones   *Zones
	// InZone has the shards of each zone, in the order of config.shards.
	InZone map[string][]string
	// NumChunks is numInitialChunks, 0 if not given.
	NumChunks int64
	Presplit  bool // presplitHashedZones
	// Generation is the new collection's; its timestamp is the cluster time from
	// which the chunks are valid.
	Generation Generation
	NewID      func() [12]byte
}

// Chunks returns the chunks that the collection starts with. Errors: 72 for a
// numInitialChunks that is not possible, 405 for a zone without a shard, 31387
// to 31391 and 31412 for zones that cannot be presplit.
func (r *Initial) Chunks() ([]Chunk, error) {
	if err := r.checkNumber(); err != nil {
		return nil, err
	}
	zones := r.Zones.All()
	for _, z := range zones {
		if len(r.InZone[z.Name]) == 0 {
			return nil, mongoerr.New(mongoerr.CannotCreateChunkDistribution,
				"The initial split policy is not able to find a chunk distribution that satisfies the given set of zones with the current shards")
		}
	}
	switch {
	case r.Presplit:
		if err := r.checkPresplit(); err != nil {
			return nil, err
		}
		return r.byZone(r.presplit()), nil
	case len(zones) == 0 && r.Empty && r.Key.HashedFirst() && r.NumChunks != 1:
		return r.even(), nil
	case len(zones) > 0 && r.Empty:
		return r.byZone(r.oneByZone()), nil
	}
	var cut cutter
	return r.finish(cut.to(r.Key.Max(), r.Primary), r.Key.Min()), nil
}

func (r *Initial) checkNumber() error {
	n := r.NumChunks
	invalid := func(format string, args ...any) error { return mongoerr.New(mongoerr.InvalidOptions, format, args...) }
	forShards := int64(len(r.Shards) * maxInitialPerShard)
	switch {
	case n < 0 || n > forShards || n > maxInitial:
		return invalid("numInitialChunks cannot be more than either: %d, %d * number of shards; or %d", forShards, maxInitialPerShard, maxInitial)
	case n == 0:
	case !r.Empty:
		return invalid("numInitialChunks is not supported when the collection is not empty.")
	case !r.Key.IsHashed():
		return invalid("numInitialChunks is not supported when the shard key is not hashed.")
	case !r.Key.HashedFirst() && !r.Presplit:
		return invalid("When the prefix of the hashed shard key is a range field, 'numInitialChunks' can only be used when the 'presplitHashedZones' is true")
	}
	return nil
}

// cut is the end of a chunk, and its shard.
type cut struct {
	end   Bound
	shard string
}

type cutter []cut

func (c cutter) to(end Bound, shard string) cutter { return append(c, cut{end, shard}) }

// finish makes consecutive chunks from a bound on, at versions 1|0, 1|1 …
func (r *Initial) finish(cuts cutter, at Bound) []Chunk {
	chunks := make([]Chunk, len(cuts))
	for i, c := range cuts {
		chunks[i] = Chunk{
			ID: r.NewID(), Range: Range{Min: at, Max: c.end}, Shard: c.shard, Version: Version{ShardGeneration: r.Generation, Major: 1, Minor: uint32(i)},
			History: []Placement{{r.Generation.Timestamp, c.shard}},
		}
		at = c.end
	}
	return chunks
}

// even splits the hash space evenly; neighbours go to one shard. If there are fewer
// chunks than shards, the primary shard gets the first.
func (r *Initial) even() []Chunk {
	n := int(r.NumChunks)
	if n == 0 {
		n = chunksPerShard * len(r.Shards)
	}
	shards := r.Shards
	if i := slices.Index(shards, r.Primary); n < len(shards) && i > 0 {
		shards = slices.Concat([]string{r.Primary}, shards[:i], shards[i+1:])
	}
	ends := append(r.Key.HashPoints(nil, n), r.Key.Max())
	var cuts cutter
	each := max(n/len(shards), 1)
	for i, end := range ends {
		cuts = cuts.to(end, shards[i/each%len(shards)])
	}
	return r.finish(cuts, r.Key.Min())
}

// HashPoints returns the points that split the hash space into n equal parts, after a
// prefix of values for the fields before the hashed one. (The
// server's arithmetic, to the bit: symmetric about 0, the outermost parts a
// little larger.)
func (k *Key) HashPoints(prefix []bson.Value, n int) []Bound {
	if n <= 1 {
		return nil
	}
	interval := int64(1<<63-1) / int64(n) * 2
	hashes := make([]int64, 0, n-1)
	at := interval / 2
	if n%2 == 0 {
		hashes = append(hashes, 0)
		at = interval
	}
	for range (n - 1) / 2 {
		hashes = append(hashes, at, -at)
		at += interval
	}
	slices.Sort(hashes)
	points := make([]Bound, len(hashes))
	for i, h := range hashes {
		points[i] = k.boundAt(prefix, h)
	}
	return points
}

// byZone splits each zone's range into the chunks that within returns, and makes one
// chunk of each gap between them. Gaps go to all shards in turn.
func (r *Initial) byZone(within func(Zone) cutter) []Chunk {
	var cuts cutter
	gaps := 0
	gap := func(to Bound) {
		cuts = cuts.to(to, r.Shards[gaps%len(r.Shards)])
		gaps++
	}
	at := r.Key.Min()
	for _, z := range r.Zones.All() {
		if at.Compare(z.Min) < 0 {
			gap(z.Min)
		}
		cuts = append(cuts, within(z)...)
		at = z.Max
	}
	if at.Compare(r.Key.Max()) < 0 {
		gap(r.Key.Max())
	}
	return r.finish(cuts, r.Key.Min())
}

// oneByZone makes one chunk of each range of a zone, on its shards in turn.
func (r *Initial) oneByZone() func(Zone) cutter {
	turn := map[string]int{}
	return func(z Zone) cutter {
		shards := r.InZone[z.Name]
		s := shards[turn[z.Name]%len(shards)]
		turn[z.Name]++
		return cutter(nil).to(z.Max, s)
	}
}

// presplit splits each range of a zone by the hash, so that each shard has about
// the same number of chunks, divided among the ranges of its zones.
func (r *Initial) presplit() func(Zone) cutter {
	ranges := map[string]int{} // of a shard
	for _, z := range r.Zones.All() {
		for _, s := range r.InZone[z.Name] {
			ranges[s]++
		}
	}
	total := int(r.NumChunks)
	if total == 0 {
		total = chunksPerShard * len(ranges)
	}
	perShard := ceil(total, len(ranges))
	return func(z Zone) cutter {
		var owners []string
		for _, s := range r.InZone[z.Name] {
			for range ceil(perShard, ranges[s]) {
				owners = append(owners, s)
			}
		}
		prefix := r.Key.BoundValues(z.Min)[:r.Key.Hashed]
		ends := append(r.Key.HashPoints(prefix, len(owners)), z.Max)
		var cuts cutter
		for i, s := range owners {
			cuts = cuts.to(ends[i], s)
		}
		return cuts
	}
}

func ceil(a, b int) int { return (a + b - 1) / b }

// checkPresplit checks that the ranges of the zones can be split by the hash.
// (Manual, "shardCollection", presplitHashedZones)
func (r *Initial) checkPresplit() error {
	zones := r.Zones.All()
	if !r.Empty || len(zones) == 0 || !r.Key.IsHashed() {
		return mongoerr.New(mongoerr.Code(31387),
			"'presplitHashedZones' is only supported when the collection is empty, zones are set up and shard key pattern has a hashed field")
	}
	if r.Key.HashedFirst() {
		if len(zones) != 1 || !zones[0].Same(r.Key.Whole()) {
			return mongoerr.New(mongoerr.Code(31412),
				"For hashed prefix shard keys, 'presplitHashedZones' is only supported when there is a single zone defined which covers entire shard key range")
		}
		return nil
	}
	for _, z := range zones {
		if err := r.Key.checkPresplit(z); err != nil {
			return err
		}
	}
	return nil
}

func (k *Key) checkPresplit(z Zone) error {
	refuse := func(code mongoerr.Code, why string) error {
		return mongoerr.New(code, "One or more zones are not defined in a manner that supports hashed pre-splitting. %s, for zone %s", why, z.Name)
	}
	lo, hi := k.BoundValues(z.Min), k.BoundValues(z.Max)
	differs := false
	for i := range k.Hashed {
		if lo[i].Type == bson.TypeMinKey || lo[i].Type == bson.TypeMaxKey {
			return refuse(31388, "Cannot have MinKey or MaxKey in the lower bound for fields preceding the hashed field but found one")
		}
		differs = differs || !bson.Equal(lo[i], hi[i])
	}
	if !differs {
		return refuse(31390, "The value preceding hashed field of the upper bound should be greater than that of lower bound")
	}
	if lo[k.Hashed].Type != bson.TypeMinKey {
		return refuse(31389, "The hashed field value for lower bound must be MinKey")
	}
	for _, v := range lo[k.Hashed+1:] {
		if v.Type != bson.TypeMinKey {
			return refuse(31391, "The fields after the hashed field must have MinKey value")
		}
	}
	return nil
}
