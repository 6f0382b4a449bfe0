package step

import (
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestAllReceived: the last answers count, and what a donor does not say is not compared.
func TestAllReceived(t *testing.T) {
	move := &Operation{Kind: KindMove, Namespace: "d.c", Args: bson.MustParse(`{from: "a", to: "b"}`)}
	reshard := &Operation{Kind: KindReshard, Namespace: "d.c", Args: bson.MustParse(`{shards: ["a", "b"], primary: "c"}`)}
	laid := Answer{Here, LayResharded, bson.MustParse(`{owners: ["a"]}`)}
	answer := func(shard, name, reply string) Answer { return Answer{shard, name, bson.MustParse(reply)} }
	for _, tc := range []struct {
		name  string
		of    *Operation
		got   Answers
		fails bool
	}{
		{"all of a move", move, Answers{
			answer("b", "_shardsvrReceived", `{documents: 1}`), answer("a", "_shardsvrBlock", `{documents: 3}`), answer("b", "_shardsvrReceived", `{documents: 3}`),
		}, false},
		{"one is not received", move, Answers{answer("a", "_shardsvrBlock", `{documents: 3}`), answer("b", "_shardsvrReceived", `{documents: 2}`)}, true},
		{"one too many", move, Answers{answer("a", "_shardsvrBlock", `{documents: 3}`), answer("b", "_shardsvrReceived", `{documents: 4}`)}, true},
		{"a part of the collection", move, Answers{answer("a", "_shardsvrBlock", `{}`), answer("b", "_shardsvrReceived", `{documents: 2}`)}, false},
		{"all of a resharding", reshard, Answers{laid,
			answer("a", "_shardsvrBlock", `{documents: 3}`), answer("b", "_shardsvrBlock", `{documents: 4}`),
			answer("a", "_shardsvrReshardReceived", `{documents: 7}`), answer("c", "_shardsvrReshardReceived", `{documents: 0}`),
		}, false},
		{"a resharding with one less", reshard, Answers{laid,
			answer("a", "_shardsvrBlock", `{documents: 3}`), answer("b", "_shardsvrBlock", `{documents: 4}`),
			answer("a", "_shardsvrReshardReceived", `{documents: 6}`), answer("c", "_shardsvrReshardReceived", `{documents: 0}`),
		}, true},
	} {
		if err := tc.of.AllReceived(tc.got); mongoerr.Is(err, mongoerr.OperationFailed) != tc.fails || err != nil && !tc.fails {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
