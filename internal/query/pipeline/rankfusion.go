package pipeline

import (
	"bytes"
	"context"
	"slices"
	"sort"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/keystring"
	"github.com/mayflydb/mayfly/internal/memory"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

const (
	// rankConstant is the k of reciprocal rank fusion.
	rankConstant = 60
	// maxFused bounds the documents of a $rankFusion in memory, in bytes.
	maxFused = 100 << 20
)

// RankFusion is {$rankFusion: {input: {pipelines}, combination: {weights},
// scoreDetails}}: rankings of the documents of one collection, fused.
type RankFusion struct {
	arg     bson.Value
	inputs  []*ranking
	details bool
}

// ranking is one input of a RankFusion.
type ranking struct {
	name   string
	weight float64
	from   *Foreign
	first  *Pipeline       // the same over the documents of the pipeline
	sort   sortkey.Pattern // the sort key of equal ranks; empty for none
}

func parseRankFusion(arg bson.Value, p *parsing) (Stage, error) {
	if p.index > p.above {
		return nil, mongoerr.New(10170100, "$rankFusion is only valid as the first stage in a pipeline")
	}
	if arg.Type != bson.TypeDocument {
		return nil, mongoerr.New(mongoerr.FailedToParse, "The $rankFusion stage specification must be an object, found %s", arg.Type)
	}
	v, err := readSpec("$rankFusion", arg.Doc(), docField("input").must(), docField("combination"), boolField("scoreDetails"))
	if err != nil {
		return nil, err
	}
	in, err := readSpec("$rankFusion.input", v[0].Doc(), docField("pipelines").must())
	if err != nil {
		return nil, err
	}
	s := &RankFusion{arg: arg, details: v[2].Type == bson.TypeBool && v[2].Bool()}
	if in[0].Doc().IsEmpty() {
		return nil, mongoerr.New(mongoerr.BadValue, "$rankFusion input.pipelines must have at least one pipeline")
	}
	for it := in[0].Doc().Iter(); it.Next(); {
		r, err := p.ranking(it.Key, it.Value)
		if err != nil {
			return nil, err
		}
		s.inputs = append(s.inputs, r)
	}
	if !v[1].IsMissing() {
		w, err := readSpec("$rankFusion.combination", v[1].Doc(), docField("weights").must())
		if err != nil {
			return nil, err
		}
		err = s.parseWeights(w[0].Doc())
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *RankFusion) parseWeights(d bson.Doc) error {
	if d.Len() > len(s.inputs) {
		return mongoerr.New(9460301, "$rankFusion input has %d pipelines, but combination.weights has %d weights", len(s.inputs), d.Len())
	}
	for it := d.Iter(); it.Next(); {
		i := slices.IndexFunc(s.inputs, func(r *ranking) bool { return r.name == it.Key })
		if i < 0 {
			return mongoerr.New(9967500, "$rankFusion stage contained a weight for a pipeline named '%s' that does not exist", it.Key)
		}
		if !it.Value.IsNumber() {
			return mongoerr.New(13118, "$rankFusion pipeline weight must be numeric, found: %s", it.Value.Type)
		}
		w := bson.ToDouble(it.Value)
		if !(w >= 0) {
			return mongoerr.New(9460300, "$rankFusion pipeline weight must be non-negative, found: %s", it.Value)
		}
		s.inputs[i].weight = w
	}
	return nil
}

// ranking parses one input pipeline.
func (p *parsing) ranking(name string, v bson.Value) (*ranking, error) {
	if v.Type != bson.TypeArray {
		return nil, wrongType("$rankFusion.input.pipelines."+name, v, []bson.Type{bson.TypeArray})
	}
	if err := expr.ValidateFieldName(name); err != nil {
		return nil, err
	}
	list := v.Doc().Slice()
	if len(list) == 0 {
		return nil, mongoerr.New(9834300, "$rankFusion input pipeline cannot be empty: %s", name)
	}
	for i, e := range list {
		if e.Type != bson.TypeDocument {
			return nil, wrongType("$rankFusion.input.pipelines."+name, e, []bson.Type{bson.TypeDocument})
		}
		stage, _ := e.Doc().First()
		if !selects(e.Doc()) && stages[stage] != nil && e.Doc().Len() == 1 {
			return nil, errSelects(name, stage)
		}
		if stage == "$rankFusion" || stage == "$scoreFusion" {
			if i > 0 {
				return nil, mongoerr.New(10170100, "%s is only valid as the first stage in a pipeline", stage)
			}
			return nil, mongoerr.New(10473002, "%s is not allowed within an input pipeline of $rankFusion", stage)
		}
	}
	r := &ranking{name: name, weight: 1}
	var err error
	if r.from, err = p.subPipeline(p.NS, list, nil); err != nil {
		return nil, err
	}
	r.first = &Pipeline{r.from.Pipeline.Stages[r.from.joinAt:]}
	return r, r.check(list)
}

// selects reports whether a stage only selects or sorts documents.
func selects(stage bson.Doc) bool {
	switch name, arg := stage.First(); name {
	case "$match", "$limit", "$skip", "$sort", "$sample", "$search", "$vectorSearch", "$rankFusion", "$scoreFusion":
		return true
	case "$geoNear":
		return arg.Type != bson.TypeDocument || !arg.Doc().Has("distanceField") && !arg.Doc().Has("includeLocs")
	}
	return false
}

func errSelects(pipeline, stage string) error {
	return mongoerr.New(9191103, "$rankFusion input pipeline '%s' has a stage that modifies the documents, or that is not allowed: %s", pipeline, stage)
}

// check requires that a ranking sorts the documents.
func (r *ranking) check(list []bson.Value) error {
	ranked := false
	for _, e := range list {
		name, arg := e.Doc().First()
		switch name {
		case "$match", "$limit", "$skip":
		case "$sort":
			pattern, err := sortkey.Parse(arg.Doc())
			if err != nil {
				return err
			}
			ranked, r.sort = true, pattern
		case "$sample":
			r.sort = sortkey.Pattern{}
		default: // $geoNear, $search, $vectorSearch
			ranked, r.sort = true, sortkey.Pattern{}
		}
	}
	if !ranked {
		return mongoerr.New(9191100, "All $rankFusion input pipelines must be ranked pipelines, but '%s' is not: it needs a $sort, or begins with $search, $vectorSearch or $geoNear", r.name)
	}
	return nil
}

// Name is the stage's name.
func (s *RankFusion) Name() string { return "$rankFusion" }

// Serialize is the specification.
func (s *RankFusion) Serialize() bson.Value { return s.arg }

// Open runs all rankings before it delivers the first document.
func (s *RankFusion) Open(in Iterator, r *Run) (Iterator, error) {
	r.Env.Meta = r.meta
	return &fusing{s: s, in: in, r: r, byID: map[string]*fused{}, memory: r.Env.Hold()}, nil
}

// fused is a document with its rank in each input, 0 for none.
type fused struct {
	id    []byte
	doc   bson.Doc
	ranks []int64
	score float64
}

// fusing runs a RankFusion.
type fusing struct {
	s      *RankFusion
	in     Iterator
	r      *Run
	byID   map[string]*fused
	sorted []*fused
	bytes  int
	loaded bool
	at     int
	memory memory.Holding
}

func (f *fusing) Close() {
	f.in.Close()
	f.memory.Release()
	f.byID, f.sorted = nil, nil
}

func (f *fusing) Next(ctx context.Context) (bson.Doc, error) {
	if !f.loaded {
		f.loaded = true
		for i, in := range f.s.inputs {
			if err := f.rank(ctx, i, in); err != nil {
				return nil, err
			}
		}
		f.fuse()
	}
	if f.at == len(f.sorted) {
		return nil, nil
	}
	d := f.sorted[f.at]
	f.at++
	f.r.Meta = f.meta(d)
	return d.doc, nil
}

// rank runs the i-th ranking: documents with equal sort keys share a rank.
func (f *fusing) rank(ctx context.Context, i int, in *ranking) error {
	sub := f.r.within(in.from.outer, nil)
	var it Iterator
	var err error
	if i == 0 {
		it, err = in.first.Open(f.in, sub)
	} else {
		it, err = in.from.openIn(ctx, sub, nil)
	}
	if err != nil {
		return err
	}
	defer it.Close()
	keys := sortkey.NewGenerator(in.sort, f.r.Env.Collator, sub.meta)
	var key, last []byte
	rank := int64(0)
	for n := int64(1); ; n++ {
		d, err := it.Next(ctx)
		if err != nil || d == nil {
			return err
		}
		if key, err = keys.Append(key[:0], d); err != nil {
			return err
		}
		if n == 1 || in.sort.IsEmpty() || !bytes.Equal(key, last) {
			rank, last = n, append(last[:0], key...)
		}
		if err := f.add(d, i, rank); err != nil {
			return err
		}
	}
}

func (f *fusing) add(d bson.Doc, i int, rank int64) error {
	id := keystring.Append(nil, d.Lookup("_id"), false, nil)
	e := f.byID[string(id)]
	if e == nil {
		e = &fused{id: id, doc: d.Clone(), ranks: make([]int64, len(f.s.inputs))}
		f.byID[string(id)] = e
		f.sorted = append(f.sorted, e)
		if f.bytes += len(d) + len(id) + 8*len(e.ranks); f.bytes > maxFused {
			return mongoerr.New(mongoerr.ExceededMemoryLimit, "$rankFusion exceeded its memory limit of %d bytes", maxFused)
		}
		if err := f.memory.Set(f.bytes); err != nil {
			return err
		}
	}
	if e.ranks[i] == 0 {
		e.ranks[i] = rank
	}
	return nil
}

// fuse computes the scores and sorts by them, equal ones by _id.
func (f *fusing) fuse() {
	for _, e := range f.sorted {
		for i, rank := range e.ranks {
			if rank > 0 {
				e.score += f.s.inputs[i].weight * (1 / float64(rankConstant+rank))
			}
		}
	}
	sort.Slice(f.sorted, func(i, j int) bool {
		a, b := f.sorted[i], f.sorted[j]
		if a.score != b.score {
			return a.score > b.score
		}
		return bytes.Compare(a.id, b.id) < 0
	})
	f.byID = nil
}

// meta is what {$meta: "score"} and {$meta: "scoreDetails"} answer.
func (f *fusing) meta(e *fused) bson.Doc {
	b := new(bson.Builder).Double("score", e.score)
	if !f.s.details {
		return b.Finish()
	}
	b.OpenDoc("scoreDetails").Double("value", e.score)
	b.String("description", "value output by reciprocal rank fusion algorithm, computed as sum of (weight * (1 / (60 + rank))) across input pipelines from which this document is output, from:")
	b.OpenArray("details")
	for i, rank := range e.ranks {
		b.OpenDoc(bson.Index(i)).String("inputPipelineName", f.s.inputs[i].name)
		if rank == 0 {
			b.String("rank", "NA").Close()
			continue
		}
		b.Int("rank", rank).Double("weight", f.s.inputs[i].weight).OpenArray("details").Close().Close()
	}
	return b.Close().Close().Finish()
}
