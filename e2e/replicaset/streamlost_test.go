package replicaset

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// setOfOne runs a member that is a set alone, and waits until it takes writes.
func setOfOne(t *testing.T, args ...string) *testkit.Server {
	t.Helper()
	s := testkit.Start(t, append([]string{"--replSet", "rs0", "--initiate"}, args...)...)
	until(t, "a primary", func() error {
		var hello struct{ IsWritablePrimary bool }
		err := s.Direct().Database("admin").RunCommand(t.Context(), bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
		if err == nil && !hello.IsWritablePrimary {
			err = errors.New("it is not primary yet")
		}
		return err
	})
	return s
}

// rawStream is a change stream without a driver's cursor, which would resume by itself.
type rawStream struct {
	db     *mongo.Database
	coll   string
	ctx    context.Context // with the stream's session
	id     int64
	token  bson.Raw
	events []bson.Raw // of the last batch
}

// watchRaw opens a stream on a collection, or on the database where coll is "".
func watchRaw(t *testing.T, db *mongo.Database, coll string, stage bson.D) (*rawStream, error) {
	t.Helper()
	session, err := db.Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	r := &rawStream{db: db, coll: coll, ctx: mongo.NewSessionContext(t.Context(), session)}
	target := any(coll)
	if coll == "" {
		target, r.coll = 1, "$cmd.aggregate"
	}
	reply, err := db.RunCommand(r.ctx, bson.D{{Key: "aggregate", Value: target}, {Key: "pipeline", Value: bson.A{bson.D{{Key: "$changeStream", Value: stage}}}}, {Key: "cursor", Value: bson.D{}}}).Raw()
	if err != nil {
		return nil, err
	}
	return r, r.took(reply, "firstBatch")
}

func (r *rawStream) took(reply bson.Raw, name string) error {
	r.id, r.token = reply.Lookup("cursor", "id").Int64(), reply.Lookup("cursor", "postBatchResumeToken").Document()
	batch, err := reply.Lookup("cursor", name).Array().Values()
	r.events = r.events[:0]
	for _, e := range batch {
		r.events = append(r.events, e.Document())
	}
	return err
}

// more reads the next batch.
func (r *rawStream) more() error {
	reply, err := r.db.RunCommand(r.ctx, bson.D{{Key: "getMore", Value: r.id}, {Key: "collection", Value: r.coll}, {Key: "maxTimeMS", Value: 150}}).Raw()
	if err != nil {
		return err
	}
	return r.took(reply, "nextBatch")
}

// lost reports whether an error says that a stream's place is gone, in the way in which
// drivers do not try again.
func lost(err error) bool {
	var ce mongo.CommandError
	return errors.As(err, &ce) && ce.Code == 286 && ce.HasErrorLabel("NonResumableChangeStreamError") && !ce.HasErrorLabel("ResumableChangeStreamError")
}

// A log that is truncated takes the place of streams that have not followed: they are told
// of in the log before it happens and when it does, those that are open and those that are
// resumed get 286, and a driver does not try again. A stream that follows goes on.
func TestStreamLosesItsPlace(t *testing.T) {
	s := setOfOne(t, "--oplogSize", "1")
	db := s.Direct().Database("app")
	idle, err := watchRaw(t, db, "c", bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	first := idle.token
	follows, err := watchRaw(t, db, "c", bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	insert := func(size int) {
		if _, err := db.Collection("c").InsertOne(t.Context(), bson.D{{Key: "_id", Value: n}, {Key: "pad", Value: strings.Repeat("x", size)}}); err != nil {
			t.Fatal(err)
		}
		n++
		if err := follows.more(); err != nil {
			t.Fatalf("a stream that follows: %v", err)
		}
	}
	for range 100 { // most of what the log may have
		insert(8 << 10)
	}
	until(t, "the place is lost", func() error {
		insert(2 << 10)
		_, err := watchRaw(t, db, "c", bson.D{{Key: "resumeAfter", Value: first}})
		switch {
		case err == nil:
			return fmt.Errorf("after %d inserts it is there", n)
		case !lost(err):
			t.Fatalf("a place that is gone: %v", err)
		}
		return nil
	})
	for range 1100 { // more entries than a member keeps decoded, truncated or not
		if _, err := db.Collection("c").InsertOne(t.Context(), bson.D{}); err != nil {
			t.Fatal(err)
		}
	}
	for follows.events = append(follows.events, nil); len(follows.events) > 0; {
		if err := follows.more(); err != nil {
			t.Fatal(err)
		}
	}
	if err := idle.more(); !lost(err) {
		t.Errorf("a stream that was open: %v", err)
	}
	for _, line := range []string{"change streams are about to lose their place", "truncated past the position of change streams"} {
		if !strings.Contains(s.Output(), line) {
			t.Errorf("the log does not say %q", line)
		}
	}
	if strings.Index(s.Output(), "about to lose") > strings.Index(s.Output(), "truncated past") {
		t.Error("the warning comes when it is too late")
	}
	driver, err := db.Collection("c").Watch(t.Context(), mongo.Pipeline{}, options.ChangeStream().SetResumeAfter(first))
	if !lost(err) {
		t.Errorf("a driver: %v", err)
	}
	if err == nil {
		_ = driver.Close(t.Context())
	}
	status, err := db.RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Raw()
	if err != nil {
		t.Fatal(err)
	}
	if m := status.Lookup("metrics", "changeStreams"); m.Document().Lookup("lost").AsInt64() < 1 || m.Document().Lookup("oldestResumable").IsZero() {
		t.Errorf("metrics.changeStreams: %s", m)
	}
}

// On a set that is idle the marks of a stream move, so that its place does not grow old;
// without streams nothing is written.
func TestIdleStreamMoves(t *testing.T) {
	s := setOfOne(t)
	db := s.Direct().Database("app")
	r, err := watchRaw(t, db, "", bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	first := r.token
	until(t, "the mark moves twice", func() error {
		for range 2 {
			was := r.token
			for string(was) == string(r.token) {
				if err := r.more(); err != nil {
					t.Fatal(err)
				}
				if len(r.events) > 0 {
					t.Fatalf("nobody has written, and there is %s", r.events[0])
				}
			}
		}
		return nil
	})
	if strings.Contains(s.Output(), `"type":"getmore"`) {
		t.Error("a getMore that waited is logged as slow")
	}
	if string(first.Lookup("_data").StringValue()) >= r.token.Lookup("_data").StringValue() {
		t.Errorf("%s is not behind %s", r.token, first)
	}
}

// Each way in which a stream cannot be opened or resumed has mongod's code, and drivers know
// by the label that they need not try again.
func TestStreamRefusals(t *testing.T) {
	s := setOfOne(t)
	client := s.Direct()
	db := client.Database("app")
	for _, c := range []bson.D{
		{{Key: "create", Value: "v"}, {Key: "viewOn", Value: "c"}},
		{{Key: "create", Value: "ts"}, {Key: "timeseries", Value: bson.D{{Key: "timeField", Value: "t"}}}},
		{{Key: "create", Value: "c"}}, {{Key: "create", Value: "other"}},
	} {
		if err := db.RunCommand(t.Context(), c).Err(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := watchRaw(t, db, "c", bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Collection("c").InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	for len(r.events) == 0 {
		if err := r.more(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Collection("other").InsertOne(t.Context(), bson.D{{Key: "_id", Value: 1}}); err != nil {
		t.Fatal(err)
	}
	event := r.events[0].Lookup("_id").Document()
	data, err := hex.DecodeString(event.Lookup("_data").StringValue())
	if err != nil {
		t.Fatal(err)
	}
	token := func(b []byte) bson.D {
		return bson.D{{Key: "_data", Value: strings.ToUpper(hex.EncodeToString(b))}}
	}
	changed := append([]byte(nil), data...)
	changed[25] ^= 1 // of the UUID
	for _, c := range []struct {
		what, coll string
		stage      bson.D
		code       int32
	}{
		{"a view", "v", bson.D{}, 166},
		{"a time series", "ts", bson.D{}, 166},
		{"buckets", "system.buckets.ts", bson.D{}, 73},
		{"views", "system.views", bson.D{}, 73},
		{"half a token", "c", bson.D{{Key: "resumeAfter", Value: token(data[:len(data)/2])}}, 15},
		{"no token", "c", bson.D{{Key: "resumeAfter", Value: bson.D{{Key: "x", Value: 1}}}}, 40647},
		{"a token with another UUID", "c", bson.D{{Key: "resumeAfter", Value: token(changed)}}, 280},
		{"a token of another collection", "other", bson.D{{Key: "resumeAfter", Value: event}}, 280},
		{"two positions", "c", bson.D{{Key: "resumeAfter", Value: event}, {Key: "startAfter", Value: event}}, 50865},
		{"a token and a time", "c", bson.D{{Key: "resumeAfter", Value: event}, {Key: "startAtOperationTime", Value: bson.Timestamp{T: 1}}}, 40674},
	} {
		r, err := watchRaw(t, db, c.coll, c.stage)
		if err == nil {
			err = r.more()
		}
		if code(err) != c.code {
			t.Errorf("%s: %v, not %d", c.what, err, c.code)
			continue
		}
		var ce mongo.CommandError
		if errors.As(err, &ce); ce.HasErrorLabel("NonResumableChangeStreamError") != (c.code == 280) || ce.HasErrorLabel("ResumableChangeStreamError") {
			t.Errorf("%s has the labels %v", c.what, ce.Labels)
		}
	}
	for _, name := range []string{"admin", "config", "local"} {
		if _, err := watchRaw(t, client.Database(name), "c", bson.D{}); code(err) != 73 {
			t.Errorf("a stream on %s: %v", name, err)
		}
	}
	// A token of the future is a place that is not there yet: the stream waits for it.
	future := append([]byte(nil), data...)
	future[1]++
	ahead, err := watchRaw(t, db, "c", bson.D{{Key: "resumeAfter", Value: token(future)}})
	if err != nil {
		t.Fatalf("a token of the future: %v", err)
	}
	if _, err := db.Collection("c").InsertOne(t.Context(), bson.D{{Key: "_id", Value: 2}}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); {
		if err := ahead.more(); err != nil || len(ahead.events) > 0 {
			t.Fatalf("a token of the future: %v %v", ahead.events, err)
		}
	}
	if err := client.Database("admin").RunCommand(t.Context(), bson.D{{Key: "setParameter", Value: 1}, {Key: "maxOpenChangeStreams", Value: 2}}).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := watchRaw(t, db, "c", bson.D{}); code(err) != 146 {
		t.Errorf("a stream too many: %v", err)
	}
}
