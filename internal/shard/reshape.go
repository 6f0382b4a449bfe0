package shard

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// CheckRefined checks that a key may replace another without moving data: it begins
// with all fields of the old one. Error 72. (refineCollectionShardKey)
func CheckRefined(old, refined *Key) error {
	if old.PrefixOf(refined.Pattern()) {
		return nil
	}
	return mongoerr.New(mongoerr.InvalidOptions, "refineCollectionShardKey shard key %s does not extend the shard key %s", refined, old)
}

// RefineRange returns a range of the old key as a range of a refined one, with
// the same documents. New fields are MinKey in a bound, and MaxKey in the
// highest bound.
func RefineRange(old, refined *Key, r Range) Range {
	return Range{Min: refineBound(old, refined, r.Min), Max: refineBound(old, refined, r.Max)}
}

func refineBound(old, refined *Key, b Bound) Bound {
	if b.Compare(old.Max()) == 0 {
		return refined.Max()
	}
	var out Bound
	for _, v := range old.BoundValues(b) {
		out.Add(v)
	}
	for range refined.Parts[len(old.Parts):] {
		out.Add(bson.MinKey)
	}
	out.TypeBits = keystring.TrimTypeBits(out.TypeBits)
	return out
}

// Refine converts the chunks of a map to a refined key, in a new generation. No data
// moves, and the versions within the generation stay the same. Error 72 as
// CheckRefined.
func (m *Map) Refine(refined *Key, gen Generation) ([]Chunk, error) {
	if err := CheckRefined(m.key, refined); err != nil {
		return nil, err
	}
	chunks := make([]Chunk, 0, m.n)
	for c := range m.Chunks() {
		c.Range = RefineRange(m.key, refined, c.Range)
		c.Version.ShardGeneration = gen
		chunks = append(chunks, c)
	}
	return chunks, nil
}

// Refine returns the zones for a refined key.
func (z *Zones) Refine(refined *Key) *Zones {
	out := &Zones{key: refined}
	for _, r := range z.All() {
		out.ranges = append(out.ranges, Zone{RefineRange(z.key, refined, r.Range), r.Name})
	}
	return out
}

// SamplePoints returns the points that split a sample of documents, each given by its
// bound (Key.BoundOf), into n parts of the same size. The ends of zones are points as
// well, and count. Error 4952606 if the sample has too few keys.
// (reshardCollection, numInitialChunks)
func SamplePoints(key *Key, sample []Bound, zones *Zones, n int) ([]Bound, error) {
	points := zones.Within(key.Whole())
	sample = slices.Clone(sample)
	slices.SortFunc(sample, Bound.Compare)
	have := map[string]bool{string(key.Min().Key): true, string(key.Max().Key): true} // keys that are points already, or cannot be
	for _, p := range points {
		have[string(p.Key)] = true
	}
	want := n - 1 - len(points) // the number that the zones' ends leave
	at := 0
	for i := range max(want, 0) {
		at = max(at, (i+1)*len(sample)/(want+1))
		for at < len(sample) && have[string(sample[at].Key)] {
			at++ // the same key again: the next one cuts
		}
		if at == len(sample) {
			break
		}
		have[string(sample[at].Key)] = true
		points = append(points, sample[at])
	}
	if len(points) < n-1 {
		return nil, mongoerr.New(mongoerr.Code(4952606),
			"The shard key provided does not have enough cardinality to make the required number of chunks of %d, it can only make %d chunks", n, len(points)+1)
	}
	slices.SortFunc(points, Bound.Compare)
	return points, nil
}

// Sampled returns the chunks of a collection that is cut at points, in order, which include
// the ends of all zones. The shards of a zone, or all of them outside of zones, get one after
// the other. Error 405 for a zone without a shard.
func (r *Initial) Sampled(points []Bound) ([]Chunk, error) {
	var cuts cutter
	turn := map[string]int{}
	at := r.Key.Min()
	for _, end := range append(slices.Clone(points), r.Key.Max()) {
		zone, shards := r.Zones.Of(Range{Min: at, Max: end}), r.Shards
		if zone != "" {
			shards = r.InZone[zone]
		}
		if len(shards) == 0 {
			return nil, mongoerr.New(mongoerr.CannotCreateChunkDistribution, "no shard may have the chunk from %s to %s", r.Key.Doc(at), r.Key.Doc(end))
		}
		cuts = cuts.to(end, shards[turn[zone]%len(shards)])
		turn[zone]++
		at = end
	}
	return r.finish(cuts, r.Key.Min()), nil
}

// Distributed returns the chunks of a collection whose distribution over shards is given.
// Error 72 if the ranges do not cover the key space, in order.
func (r *Initial) Distributed(ranges []Range, shards []string) ([]Chunk, error) {
	var cuts cutter
	at := r.Key.Min()
	for i, span := range ranges {
		if at.Compare(span.Min) != 0 {
			return nil, mongoerr.New(mongoerr.InvalidOptions, "the ranges of shardDistribution must be contiguous and cover all keys: %s", r.Key.RangeText(span))
		}
		cuts, at = cuts.to(span.Max, shards[i]), span.Max
	}
	if at.Compare(r.Key.Max()) != 0 {
		return nil, mongoerr.New(mongoerr.InvalidOptions, "the ranges of shardDistribution must cover all keys; they end at %s", r.Key.Doc(at))
	}
	return r.finish(cuts, r.Key.Min()), nil
}
