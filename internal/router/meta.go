package router

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/pipeline"
)

// hiddenKnown begins the names of the fields in which shards send metadata that the router's part of
// a pipeline reads. Documents lose it on their way. No client's field has such a name.
const hiddenKnown = "\x01known"

// meta is the metadata that documents have behind the shards' part.
func (p *parts) meta() (names []string) {
	for i, v := range p.shards {
		name, arg := v.Doc().First()
		switch {
		case name == "$geoNear":
			names = append(names, "geoNearDistance", "geoNearPoint")
		case name == "$match" && i == 0 && mentionsText(arg):
			names = append(names, "textScore", "score")
		case name == "$sort":
			names = append(names, "sortKey")
		}
	}
	return names
}

// mentionsText reports whether a filter has a $text.
func mentionsText(v bson.Value) bool {
	if v.Type != bson.TypeDocument && v.Type != bson.TypeArray {
		return false
	}
	for name, inner := range v.Doc().All() {
		if name == "$text" || mentionsText(inner) {
			return true
		}
	}
	return false
}

// intersection are the elements of x that are in y, too.
func intersection(x, y []string) (both []string) {
	for _, name := range x {
		if slices.Contains(y, name) {
			both = append(both, name)
		}
	}
	return both
}

// showKnown appends the stage by which shards put metadata into fields.
func showKnown(shards []bson.Value, names []string) []bson.Value {
	if len(names) == 0 {
		return shards
	}
	var b bson.Builder
	for i, name := range names {
		b.OpenDoc(hiddenKnown+bson.Index(i)).String("$meta", name).Close()
	}
	return append(slices.Clip(shards), stage("$addFields", bson.Document(b.Finish())))
}

// reveal gives the documents of shards the metadata that they have sent in fields, and takes out these.
func (a *aggregation) reveal(in documentCursor, run *pipeline.Run) pipeline.Iterator {
	if len(a.known) == 0 && a.hidden == "" {
		return in
	}
	k := &revealed{documentCursor: in, values: map[string]bson.Value{}, names: a.known, hidden: a.hidden}
	return run.Describe(k, a.known, func(name string) bson.Value { return k.values[name] })
}

// revealed takes the fields of metadata out of documents.
type revealed struct {
	documentCursor
	names  []string
	hidden string
	values map[string]bson.Value // of the last document
}

// Next implements pipeline.Iterator.
func (k *revealed) Next(ctx context.Context) (bson.Doc, error) {
	d, err := k.documentCursor.Next(ctx)
	if err != nil || d == nil {
		return nil, err
	}
	clear(k.values)
	var b bson.Builder
	for name, v := range d.All() {
		number, hidden := strings.CutPrefix(name, hiddenKnown)
		if !hidden && name != k.hidden {
			b.Value(name, v)
			continue
		}
		if i, err := strconv.Atoi(number); hidden && err == nil && i >= 0 && i < len(k.names) {
			k.values[k.names[i]] = v
		}
	}
	return b.Finish(), nil
}
