package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// quiet is a logger for tests.
func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// sample registers commands whose arguments show every kind of field.
func sample(d *Dispatcher) {
	inner := NewFields("inner", String("name").Required(), SafeBool("on"))
	d.Registry.Register(
		&Command{Name: "ping", Fields: NewFields("ping"), Flags: NoAuth | APIv1, Help: "alive?", Run: ok},
		&Command{Name: "kinds", Flags: TakesWriteConcern | TakesReadConcern | TakesSnapshot, Fields: NewFields("kinds", Collection(),
			Bool("bool"), SafeBool("safeBool"), SafeInt("int").Min(0), SafeInt64("long").Above(0).Max(10),
			ExactInt64("exact"), String("string"), Object("object"), Array("array"),
			OneOf("either", bson.TypeString, bson.TypeDocument), Enum("enum", "red", "blue"), UUID("uuid"),
			Struct("inner", inner), ArrayOf("inners", Struct("", inner)), ArrayOf("strings", String("")),
			Ignored("ignored"), Any("any"), Int64("strict").Unstable()), Run: echo},
		&Command{Name: "needs", Flags: APIv1, Fields: NewFields("needs", Value(Int64("").Required()), String("what").Required()), Run: echo},
		&Command{Name: "loose", Aliases: []string{"Loose"}, Fields: NewFields("loose", String("what")).Lenient(), Run: ok},
		&Command{Name: "root", Aliases: []string{"Root"}, Flags: AdminOnly, Run: ok},
		&Command{Name: "panics", Run: func(context.Context, *Op) error { panic("at the disco") }},
		&Command{Name: "fails", Run: func(context.Context, *Op) error {
			return mongoerr.New(mongoerr.Code(11000), "dup").WithExtra(new(bson.Builder).Int32("n", 1).Finish()).WithLabels("Bad")
		}},
		&Command{Name: "breaks", Run: func(context.Context, *Op) error { return io.ErrUnexpectedEOF }},
		&Command{Name: "slow", Run: func(ctx context.Context, _ *Op) error { <-ctx.Done(); return ctx.Err() }},
	)
}

func ok(context.Context, *Op) error { return nil }

// echo replies with the arguments as the handler reads them.
func echo(_ context.Context, op *Op) error {
	a := &op.Args
	if op.Collection != "" {
		op.Reply.String("ns", op.NS)
	}
	for i, f := range a.fields.fields {
		if a.value(i).IsMissing() {
			continue
		}
		switch f.kind {
		case kindBool:
			op.Reply.Bool(f.name, a.Bool(f.name))
		case kindInt32:
			op.Reply.Int32(f.name, int32(a.Int(f.name)))
		case kindInt64, kindExact:
			op.Reply.Int64(f.name, a.Int64(f.name))
		case kindStruct:
			s, _ := a.Struct(f.name)
			op.Reply.String(f.name, s.Str("name"))
		case kindArray:
			names := a.Strings(f.name)
			for _, s := range a.Structs(f.name) {
				names = append(names, s.Str("name"))
			}
			op.Reply.Strings(f.name, names...)
		default:
			op.Reply.Value(f.name, a.value(i))
		}
	}
	return nil
}

// TestDispatch runs the scripts of testdata/dispatch: each case is a database
// and a body, the expectation the reply.
func TestDispatch(t *testing.T) {
	d := NewDispatcher(quiet())
	sample(d)
	variable := regexp.MustCompile(`in session [0-9a-f-]+`)
	datadriven.Walk(t, "testdata/dispatch", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, c *datadriven.TestData) string {
			var out strings.Builder
			for line := range strings.SplitSeq(c.Input, "\n") {
				req := request(t, line)
				if c.HasArg("sections") {
					id := ""
					c.ScanArgs(t, "sections", &id)
					req.Sequences = []Sequence{{ID: id, Docs: []bson.Doc{doc(t, `{"name":"a"}`), doc(t, `{"name":"b"}`)}}}
				}
				req.DB = c.Cmd
				if req.DB == "none" {
					req.DB = ""
				}
				out.WriteString(variable.ReplaceAllString(d.Dispatch(t.Context(), req).Body.String(), "in session S") + "\n")
			}
			return out.String()
		})
	})
}

// TestWithoutLocal: where there is no database local, who has the key of the cluster logs in on it all the same.
func TestWithoutLocal(t *testing.T) {
	d := NewDispatcher(quiet())
	sample(d)
	d.Registry.Register(&Command{Name: "login", Flags: NoAuth | Redacted, Run: ok})
	d.WithoutLocal = true
	for body, refused := range map[string]bool{`{"ping":1}`: true, `{"loose":1}`: true, `{"login":1}`: false} {
		req := request(t, body)
		req.DB = "local"
		if got := d.Dispatch(t.Context(), req).Body; strings.Contains(got.String(), "through mongos") != refused {
			t.Errorf("%s: %s", body, got)
		}
	}
}

func doc(t *testing.T, text string) bson.Doc {
	t.Helper()
	d, err := bson.ParseJSON(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return d
}

func request(t *testing.T, text string) *Request {
	return &Request{Client: &Client{ConnectionID: 1}, Body: doc(t, text)}
}

// run dispatches one body on the database test and returns the reply.
func run(t *testing.T, d *Dispatcher, c *Client, text string) bson.Doc {
	t.Helper()
	return d.Dispatch(t.Context(), &Request{Client: c, DB: "test", Body: doc(t, text)}).Body
}

func code(d bson.Doc) mongoerr.Code { return mongoerr.Code(bson.ClampToInt64(d.Lookup("code"))) }

func BenchmarkDispatchPing(b *testing.B) {
	d := NewDispatcher(quiet())
	sample(d)
	body, _ := bson.ParseJSON(`{"ping":1,"lsid":{"id":{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}}},"$db":"admin"}`)
	req := &Request{Client: &Client{ConnectionID: 1}, Body: body}
	b.ReportAllocs()
	for b.Loop() {
		d.Dispatch(b.Context(), req)
	}
}

func BenchmarkParse(b *testing.B) {
	f := NewFields("find", Collection(), Object("filter"), Object("sort"), SafeInt64("limit").Min(0),
		SafeInt64("batchSize").Min(0), Bool("singleBatch"))
	body, _ := bson.ParseJSON(`{"find":"c","filter":{"_id":1},"limit":1,"singleBatch":true,"$db":"test"}`)
	op := &Op{Client: &Client{}, DB: "test", Body: body}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(op, f); err != nil {
			b.Fatal(err)
		}
	}
}

// TestFieldOfTwo declares a field in two commands: a change of it would be one of both.
func TestFieldOfTwo(t *testing.T) {
	shared := String("name")
	NewFields("one", shared)
	defer func() {
		if p := recover(); p == nil {
			t.Fatal("two commands share the declaration of a field")
		}
	}()
	NewFields("two", shared.Required())
}

func ExampleNewFields() {
	f := NewFields("resize", String("name").Required(), SafeInt("size").Min(0))
	d := new(bson.Builder).String("name", "x").Int32("size", -1).Finish()
	_, err := ParseDoc(f, d)
	fmt.Println(err)
	// Output: BSON field 'resize.size' value must be >= 0, actual value '-1'
}

// TestPanicLetsGoOfSession holds that a panic outside of a handler does not keep
// the session for ever.
func TestPanicLetsGoOfSession(t *testing.T) {
	d := NewDispatcher(quiet())
	sample(d)
	d.Authorize = func(context.Context, *Op) (func(), error) { panic("asked for") }
	func() {
		defer func() { _ = recover() }()
		run(t, d, &Client{}, `{"slow":1,"lsid":{"id":{"$binary":{"base64":"AAAAAAAAAAAAAAAAAAAAAA==","subType":"04"}}}}`)
		t.Error("no panic")
	}()
	if gone := d.Sessions.expire(time.Now().Add(time.Hour)); len(gone) != 1 {
		t.Error("the session stays in use")
	}
}

// TestReadStale: a read on a shard whose collection went meanwhile is told that its version is an
// old one, where it is; a write, which may have done something, and what came without a version are not.
func TestReadStale(t *testing.T) {
	killed, stale := mongoerr.New(mongoerr.QueryPlanKilled, "collection dropped"), mongoerr.New(mongoerr.StaleConfig, "stale")
	for _, x := range []struct {
		flags    Flags
		versions *Versions
		err      error
		admitted error
		want     error
	}{
		{ChecksOwner, &Versions{}, killed, stale, stale},
		{ChecksOwner, &Versions{}, killed, nil, killed},
		{ChecksOwner, nil, killed, stale, killed},
		{ChecksOwner | Writes, &Versions{}, killed, stale, killed},
		{ChecksOwner, &Versions{}, errKilled, stale, errKilled},
		{ChecksOwner, &Versions{}, nil, stale, nil},
	} {
		d := NewDispatcher(quiet())
		d.Admit = func(context.Context, *Op) error { return x.admitted }
		op := &Op{Command: &Command{Flags: x.flags}}
		op.Generic.Versions = x.versions
		if got := d.readStale(t.Context(), op, x.err); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}
