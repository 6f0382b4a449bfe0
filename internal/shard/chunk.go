package shard

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Chunk is a range of the key space and the shard that owns it: one document of
// config.chunks.
type Chunk struct {
	ID [12]byte
	Range
	Shard   string
	Version Version
	Jumbo   bool
	// History lists the shards that owned the range, the newest first. If it is empty,
	// history begins now.
	History []Placement
}

// Placement is the cluster time since which a shard owns a range.
type Placement struct {
	ValidAfter uint64
	Shard      string
}

// Since is when the chunk moved to its shard (onCurrentShardSince), 0 if unknown.
func (c *Chunk) Since() uint64 {
	if len(c.History) == 0 {
		return 0
	}
	return c.History[0].ValidAfter
}

// ParseChunk reads a document of config.chunks. Errors: 2, with the document.
func (k *Key) ParseChunk(g Generation, doc bson.Doc) (Chunk, error) {
	var c Chunk
	var lastmod bson.Value
	var shardName, history, since bson.Value
	var bounds [2]bson.Value
	for it := doc.Iter(); it.Next(); {
		switch it.Key {
		case "_id":
			if it.Value.Type != bson.TypeObjectID {
				return c, badChunk(doc, "_id")
			}
			c.ID = it.Value.ObjectID()
		case "min":
			bounds[0] = it.Value
		case "max":
			bounds[1] = it.Value
		case "shard":
			shardName = it.Value
		case "lastmod":
			lastmod = it.Value
		case "history":
			history = it.Value
		case "onCurrentShardSince":
			since = it.Value
		case "jumbo":
			c.Jumbo = it.Value.Truthy()
		}
	}
	if lastmod.Type != bson.TypeTimestamp {
		return c, badChunk(doc, "lastmod")
	}
	if shardName.Type != bson.TypeString || shardName.Str() == "" {
		return c, badChunk(doc, "shard")
	}
	c.Version, c.Shard = g.At(lastmod.Timestamp()), strings.Clone(shardName.Str())
	for i, b := range []*Bound{&c.Min, &c.Max} {
		ok := bounds[i].Type == bson.TypeDocument
		if ok {
			*b, ok = k.ParseBound(bounds[i].Doc())
		}
		if !ok {
			return c, badChunk(doc, [...]string{"min", "max"}[i])
		}
	}
	if c.Min.Compare(c.Max) >= 0 {
		return c, badChunk(doc, "max")
	}
	var err error
	c.History, err = parseHistory(doc, history, since, c.Shard)
	return c, err
}

func parseHistory(doc bson.Doc, history, since bson.Value, owner string) ([]Placement, error) {
	if history.Type != bson.TypeArray {
		if since.Type == bson.TypeTimestamp {
			return []Placement{{since.Timestamp(), owner}}, nil
		}
		return nil, nil
	}
	var out []Placement
	for it := history.Doc().Iter(); it.Next(); {
		if it.Value.Type != bson.TypeDocument {
			return nil, badChunk(doc, "history")
		}
		after, shard := it.Value.Doc().Lookup("validAfter"), it.Value.Doc().Lookup("shard")
		if after.Type != bson.TypeTimestamp || shard.Type != bson.TypeString {
			return nil, badChunk(doc, "history")
		}
		name := owner
		if shard.Str() != owner {
			name = strings.Clone(shard.Str())
		}
		out = append(out, Placement{after.Timestamp(), name})
	}
	if len(out) > 0 && out[0].Shard != owner {
		return nil, badChunk(doc, "history")
	}
	return out, nil
}

func badChunk(doc bson.Doc, field string) error {
	return mongoerr.New(mongoerr.BadValue, "invalid field '%s' in a document of config.chunks: %s", field, doc)
}

// ChunkDoc writes c as a document of config.chunks.
func (k *Key) ChunkDoc(collection bson.UUID, c *Chunk) bson.Doc {
	var b bson.Builder
	b.ObjectID("_id", c.ID).Binary("uuid", 4, collection[:]).Doc("min", k.Doc(c.Min)).Doc("max", k.Doc(c.Max))
	b.String("shard", c.Shard).Timestamp("lastmod", c.Version.Lastmod())
	if len(c.History) > 0 {
		b.Timestamp("onCurrentShardSince", c.Since()).OpenArray("history")
		for i, p := range c.History {
			b.OpenDoc(bson.Index(i)).Timestamp("validAfter", p.ValidAfter).String("shard", p.Shard).Close()
		}
		b.Close()
	}
	if c.Jumbo {
		b.Bool("jumbo", true)
	}
	return b.Finish()
}
