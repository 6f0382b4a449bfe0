package expr

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestHostile evaluates expressions that would need more memory than there is:
// each is refused with the server's code instead.
func TestHostile(t *testing.T) {
	doc := new(bson.Builder).String("s", strings.Repeat("x", 1<<20)).Finish()
	for source, code := range map[string]mongoerr.Code{
		`{$map: {input: {$range: [0, 1000]}, in: {$concat: ["$s", "x"]}}}`:                                         mongoerr.ExceededMemoryLimit,
		`{$map: {input: {$range: [0, 9]}, in: {$map: {input: {$range: [0, 50]}, in: {$concat: ["$s"]}}}}}`:         mongoerr.ExceededMemoryLimit,
		`{$reduce: {input: {$range: [0, 30]}, initialValue: ["$s"], in: {$concatArrays: ["$$value", "$$value"]}}}`: mongoerr.ExceededMemoryLimit,
		`{$reduce: {input: {$range: [0, 30]}, initialValue: "$s", in: {$concat: ["$$value", "$$value"]}}}`:         16493,
		`{$range: [0, {$multiply: [{$strLenCP: "$s"}, 10]}]}`:                                                      mongoerr.ExceededMemoryLimit,
	} {
		e, err := Parse(bson.MustParseValue(source), nil)
		if err == nil {
			_, err = e.Eval(NewEnv(0).WithRoot(doc))
		}
		var m *mongoerr.Error
		if !errors.As(err, &m) || m.Code != code {
			t.Errorf("%s: %v", source, err)
		}
	}
}

func TestWatch(t *testing.T) {
	why := errors.New("killed")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	env := NewEnv(0).WithRoot(bson.MustParse(`{n: 10000, s: "` + strings.Repeat("a", 1<<20) + `"}`))
	env.Watch(ctx)
	for _, source := range []string{
		`{$reduce: {input: {$range: [0, "$n"]}, initialValue: 0, in: {$reduce: {
			input: {$range: [0, "$n"]}, initialValue: 0, in: {$add: ["$$value", 1]}}}}}`,
		`{$regexMatch: {input: "$s", regex: "(?=a)a*[bc]"}}`,
		`{$regexFind: {input: "$s", regex: "(?=a)a*[bc]"}}`,
		`{$regexFindAll: {input: "$s", regex: "(?=a)a*[bc]"}}`,
	} {
		e, err := Parse(bson.MustParseValue(source), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Eval(env); !errors.Is(err, why) {
			t.Errorf("%s ended with %v", source, err)
		}
	}
}

func TestDepth(t *testing.T) {
	deep := bson.Int32(1)
	for range 2 * maxDepth {
		deep = bson.Document(new(bson.Builder).Value("$abs", deep).Finish())
	}
	if _, err := Parse(deep, nil); mongoerr.From(err).Code != mongoerr.Overflow {
		t.Errorf("a deep expression: %v", err)
	}
}
