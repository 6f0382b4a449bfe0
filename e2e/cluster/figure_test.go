package cluster

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

var rewrite = flag.Bool("rewrite", false, "write docs/operate/hashed-sharding.svg anew")

// figure is the drawing of what TestFigure counts.
const figure = "../../docs/operate/hashed-sharding.svg"

// TestFigure is the figure of the manual's page "Hashed Sharding", measured: documents with
// rising keys go to all chunks where the key is hashed, and to the last chunk where it is
// not. What is counted is drawn.
func TestFigure(t *testing.T) {
	const documents, chunks, before = 12_000, 6, 6000
	c := start(t, 3, 1)
	db := c.routers[0].Client().Database("app")
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	for ns, how := range map[string]any{"app.hashed": "hashed", "app.ranged": 1} {
		c.admin(t, bson.D{{Key: "shardCollection", Value: ns}, {Key: "key", Value: bson.D{{Key: "x", Value: how}}}})
	}
	// The ranged collection has been filled up to a key: it has chunks on every shard.
	for i := 1; i < chunks; i++ {
		at := bson.D{{Key: "x", Value: i * before / (chunks - 1)}}
		c.admin(t, bson.D{{Key: "split", Value: "app.ranged"}, {Key: "middle", Value: at}})
	}
	for i, k := range c.chunksOf(t, "app.ranged") {
		to := fmt.Sprintf("s%d", i/2)
		if k.Shard != to {
			c.admin(t, bson.D{{Key: "moveRange", Value: "app.ranged"}, {Key: "min", Value: k.Min}, {Key: "max", Value: k.Max}, {Key: "toShard", Value: to}})
		}
	}
	var docs []any
	for i := range documents {
		docs = append(docs, bson.D{{Key: "x", Value: before + i}})
	}
	var counts [2][]int64
	for i, name := range []string{"hashed", "ranged"} {
		if _, err := db.Collection(name).InsertMany(t.Context(), docs, unordered); err != nil {
			t.Fatal(err)
		}
		for _, k := range c.chunksOf(t, "app."+name) {
			counts[i] = append(counts[i], within(t, db.Collection(name), k, name == "hashed"))
		}
		t.Logf("%s: %d documents with rising keys go to the chunks so: %v", name, documents, counts[i])
	}
	for i, n := range counts[0] {
		if n < documents/chunks*9/10 || n > documents/chunks*11/10 {
			t.Errorf("by hash, chunk %d gets %d of %d", i, n, documents)
		}
		if last := i == chunks-1; !last && counts[1][i] != 0 || last && counts[1][i] != documents {
			t.Errorf("by range, chunk %d gets %d of %d", i, counts[1][i], documents)
		}
	}
	drawn := draw(documents, counts)
	if *rewrite {
		if err := os.WriteFile(figure, drawn, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(figure); err != nil || !bytes.Equal(have, drawn) {
		t.Errorf("%s shows other counts; run this test with -rewrite: %v", figure, err)
	}
}

// within counts the documents of a chunk.
func within(t *testing.T, coll *mongo.Collection, k chunk, hashed bool) int64 {
	t.Helper()
	var place any = "$x"
	if hashed {
		place = bson.D{{Key: "$toHashedIndexKey", Value: "$x"}}
	}
	n, err := coll.CountDocuments(t.Context(), bson.D{{Key: "$expr", Value: bson.D{{Key: "$and", Value: bson.A{
		bson.D{{Key: "$gte", Value: bson.A{place, bson.D{{Key: "$literal", Value: k.Min[0].Value}}}}},
		bson.D{{Key: "$lt", Value: bson.A{place, bson.D{{Key: "$literal", Value: k.Max[0].Value}}}}},
	}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// draw is an SVG with a bar for each chunk, by hash above and by range below.
func draw(documents int64, counts [2][]int64) []byte {
	const width, height, bar, left, top = 640, 400, 84, 70, 40
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", width, height)
	for i, title := range []string{"{x: \"hashed\"}", "{x: 1}"} {
		y, tall := top+i*180, 110.0
		fmt.Fprintf(&b, `<text x="20" y="%d">%d documents with rising x, shard key %s</text>`+"\n", y-14, documents, strings.ReplaceAll(title, `"`, "&quot;"))
		for j, n := range counts[i] {
			h := tall * float64(n) / float64(documents)
			x := left + j*(bar+8)
			fmt.Fprintf(&b, `<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="#3b7dd8"/>`+"\n", x, float64(y)+tall-h, bar, h)
			fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="middle">%d</text>`+"\n", x+bar/2, float64(y)+tall-h-4, n)
			fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="middle" fill="#666">chunk %d, s%d</text>`+"\n", x+bar/2, float64(y)+tall+16, j+1, j/2)
		}
	}
	b.WriteString("</svg>\n")
	return []byte(b.String())
}
