package expr

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
)

const (
	// digestBuffer is how many numbers a digest holds unmerged. Up to that many
	// its quantiles are exact: one of the numbers.
	digestBuffer = 1 << 15
	// digestScale is about the number of centroids after a merge.
	digestScale = 1000
)

// digest estimates quantiles of any number of numbers in bounded space. It is a
// merging t-digest (Dunning and Ertl, "Computing extremely accurate quantiles
// using t-digests"), which is finest near 0 and 1.
type digest struct {
	count              int64
	negative, positive int64 // infinities, which have no mean
	buffer             []float64
	sorted             bool // the buffer is
	centroids          []centroid
	min, max           float64 // of what is in centroids
}

type centroid struct {
	mean   float64
	weight int64
}

// add takes in v if it is a number other than NaN.
func (d *digest) add(v bson.Value) {
	if !v.IsNumber() {
		return
	}
	f := bson.ToDouble(v)
	switch {
	case math.IsNaN(f):
		return
	case math.IsInf(f, -1):
		d.negative++
	case math.IsInf(f, 1):
		d.positive++
	default:
		if len(d.buffer) == digestBuffer {
			d.merge()
		}
		d.buffer = append(d.buffer, f)
		d.sorted = false
	}
	d.count++
}

func (d *digest) size() int { return 8*cap(d.buffer) + 16*cap(d.centroids) }

// merge moves the buffer into the centroids.
func (d *digest) merge() {
	all := slices.Clone(d.centroids)
	if len(all) == 0 {
		d.min, d.max = math.Inf(1), math.Inf(-1)
	}
	for _, f := range d.buffer {
		d.min, d.max = min(d.min, f), max(d.max, f)
		all = append(all, centroid{f, 1})
	}
	d.buffer = d.buffer[:0]
	slices.SortFunc(all, func(a, b centroid) int {
		if a.mean < b.mean {
			return -1
		}
		if a.mean > b.mean {
			return 1
		}
		return 0
	})
	total := int64(0)
	for _, c := range all {
		total += c.weight
	}
	merged := d.centroids[:0]
	before, limit := int64(0), digestLimit(0)
	for i, c := range all {
		if i > 0 {
			last := &merged[len(merged)-1]
			if float64(before+last.weight+c.weight)/float64(total) <= limit {
				last.weight += c.weight
				last.mean += (c.mean - last.mean) * float64(c.weight) / float64(last.weight)
				continue
			}
			before += last.weight
			limit = digestLimit(float64(before) / float64(total))
		}
		merged = append(merged, c)
	}
	d.centroids = merged
}

// digestLimit is the quantile up to which the centroid that starts at q may reach:
// one unit on the scale k(q) = δ/2π·asin(2q-1).
func digestLimit(q float64) float64 {
	k := math.Asin(2*q-1) + 2*math.Pi/digestScale
	if k >= math.Pi/2 {
		return 1
	}
	return (math.Sin(k) + 1) / 2
}

// quantile estimates the number that the fraction p of all is not above. There
// is one at least.
func (d *digest) quantile(p float64) float64 {
	rank := max(1, int64(math.Ceil(p*float64(d.count)))) // from 1
	if rank <= d.negative {
		return math.Inf(-1)
	}
	if rank -= d.negative; rank > d.count-d.negative-d.positive {
		return math.Inf(1)
	}
	if len(d.centroids) == 0 {
		if !d.sorted {
			slices.Sort(d.buffer)
			d.sorted = true
		}
		return d.buffer[rank-1]
	}
	if len(d.buffer) > 0 {
		d.merge()
	}
	if rank == 1 {
		return d.min
	}
	if rank == d.count-d.negative-d.positive {
		return d.max
	}
	// A centroid's mean is in the middle of its ranks; between the middles of
	// two, estimates are interpolated.
	at, mean := 0.5, d.min
	before := int64(0)
	for _, c := range d.centroids {
		middle := float64(before) + float64(c.weight+1)/2
		if float64(rank) <= middle {
			return mean + (c.mean-mean)*(float64(rank)-at)/(middle-at)
		}
		at, mean = middle, c.mean
		before += c.weight
	}
	return d.max
}

// save appends the digest.
func (d *digest) save(b []byte) []byte {
	for _, n := range []int64{d.count, d.negative, d.positive, int64(len(d.buffer))} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	for _, f := range d.buffer {
		b = saveFloat(b, f)
	}
	b = saveFloat(saveFloat(b, d.min), d.max)
	for _, c := range d.centroids {
		b = binary.AppendUvarint(saveFloat(b, c.mean), uint64(c.weight))
	}
	return b
}

// load adds the numbers of a digest that save appended.
func (d *digest) load(b []byte) {
	in := saved(b)
	d.count, d.negative, d.positive = d.count+int64(in.int()), d.negative+int64(in.int()), d.positive+int64(in.int())
	for n := in.int(); n > 0; n-- {
		if len(d.buffer) == digestBuffer {
			d.merge()
		}
		d.buffer = append(d.buffer, in.float())
		d.sorted = false
	}
	low, high := in.float(), in.float()
	if len(in) == 0 {
		return
	}
	if len(d.centroids) > 0 {
		low, high = min(d.min, low), max(d.max, high)
	}
	for d.min, d.max = low, high; len(in) > 0; {
		d.centroids = append(d.centroids, centroid{in.float(), int64(in.int())})
	}
	d.merge()
}
