package router_test

import (
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestFileMD5: the digest of a file is the same wherever its chunks lie.
func TestFileMD5(t *testing.T) {
	c := newCluster(t, 2)
	content := strings.Repeat("a file in five chunks", 5)
	want := fmt.Sprintf("%x", md5.Sum([]byte(content)))
	fill := func(db string) {
		var docs []string
		for n := range 5 {
			part := base64.StdEncoding.EncodeToString([]byte(content[n*21 : n*21+21]))
			docs = append(docs, fmt.Sprintf(`{_id: %d, files_id: 7, n: %d, data: {"$binary": {base64: "%s", subType: "00"}}}`, n, n, part))
		}
		c.do(db, `{createIndexes: "fs.chunks", indexes: [{key: {files_id: 1, n: 1}, name: "files_id_1_n_1"}]}`)
		c.do(db, `{insert: "fs.chunks", documents: [`+strings.Join(docs, ", ")+`]}`)
	}
	check := func(db, text string, chunks int64) bson.Doc {
		t.Helper()
		got := c.do(db, text)
		if n := bson.ClampToInt64(got.Lookup("numChunks")); n != chunks || got.Lookup("md5").Str() != want {
			t.Errorf("%s %s: %s", db, text, got)
		}
		return got
	}
	fill("plain")
	check("plain", `{filemd5: 7, root: "fs"}`, 5)

	c.do("admin", `{shardCollection: "hash.fs.chunks", key: {files_id: "hashed"}}`)
	fill("hash")
	check("hash", `{filemd5: 7}`, 5)

	c.do("admin", `{shardCollection: "spread.fs.chunks", key: {files_id: 1, n: 1}}`)
	for _, n := range []int{1, 2, 4} {
		c.do("admin", fmt.Sprintf(`{split: "spread.fs.chunks", middle: {files_id: 7, n: %d}}`, n))
	}
	shards := 0
	for n := range 5 {
		c.do("admin", fmt.Sprintf(`{moveChunk: "spread.fs.chunks", find: {files_id: 7, n: %d}, to: "s%d"}`, n, n/2%2))
	}
	fill("spread")
	for name := range c.shards {
		if bson.ClampToInt64(c.on(name, "spread", `{count: "fs.chunks"}`).Lookup("n")) > 0 {
			shards++
		}
	}
	if shards != 2 {
		t.Errorf("the file lies on %d shards", shards)
	}
	check("spread", `{filemd5: 7}`, 5)
	state := c.do("spread", `{filemd5: 7, partialOk: true}`).Lookup("md5state")
	if state.Type != bson.TypeBinary {
		t.Errorf("md5state: %s", state)
	}
	c.do("spread", `{delete: "fs.chunks", deletes: [{q: {files_id: 7, n: 3}, limit: 1}]}`)
	c.refused("spread", `{filemd5: 7}`, mongoerr.Code(10040))
	if n := bson.ClampToInt64(c.do("spread", `{filemd5: 7, partialOk: true}`).Lookup("numChunks")); n != 3 {
		t.Errorf("%d chunks before the gap", n)
	}
	if n := bson.ClampToInt64(c.do("spread", `{filemd5: 8}`).Lookup("numChunks")); n != 0 {
		t.Errorf("a file that is not there has %d chunks", n)
	}

	c.do("admin", `{shardCollection: "wrong.fs.chunks", key: {_id: "hashed"}}`)
	c.refused("wrong", `{filemd5: 7}`, mongoerr.IllegalOperation)
}
