package replicaset

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// gauges are the metrics of the server whose admin port is given, by their names without the
// prefix; those with labels are left out.
func gauges(t *testing.T, port int) map[string]float64 {
	t.Helper()
	r, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	all := map[string]float64{}
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			all[strings.TrimPrefix(name, "mayfly_")] = v
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestStreamAndTransactionGauges holds that /metrics counts change streams and transactions, and
// says how far the log reaches back: that it is shorter than a day, since its size is, is said
// in serverStatus and once in the log, too.
func TestStreamAndTransactionGauges(t *testing.T) {
	port := testkit.FreePort(t)
	s := setOfOne(t, "--oplogSize", "1", "--adminPort", strconv.Itoa(port))
	db := s.Direct().Database("app")
	expect := func(when string, want map[string]float64) {
		t.Helper()
		got := gauges(t, port)
		for name, v := range want {
			if is, ok := got[name]; !ok || is != v {
				t.Errorf("%s: %s is %v, not %v", when, name, is, v)
			}
		}
	}
	c := db.Collection("c")
	if _, err := c.InsertOne(t.Context(), bson.D{{Key: "_id", Value: "first"}}); err != nil {
		t.Fatal(err)
	}
	expect("before anything", map[string]float64{"change_streams_open": 0, "change_streams_left_seconds": math.Inf(1), "transactions_open": 0,
		"transactions_started_total": 0, "oplog_history_seconds": math.Inf(1), "oplog_history_short": 0, "oplog_truncations_total": 0})
	idle, err := watchRaw(t, db, "c", bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	transact := func(end func(*mongo.Session)) {
		t.Helper()
		session, err := db.Client().StartSession()
		if err != nil {
			t.Fatal(err)
		}
		defer session.EndSession(t.Context())
		if err := session.StartTransaction(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.InsertOne(mongo.NewSessionContext(t.Context(), session), bson.D{}); err != nil {
			t.Fatal(err)
		}
		expect("in a transaction", map[string]float64{"transactions_open": 1, "transactions_active": 0, "change_streams_open": 1})
		end(session)
	}
	transact(func(s *mongo.Session) {
		if err := s.CommitTransaction(t.Context()); err != nil {
			t.Error(err)
		}
	})
	transact(func(s *mongo.Session) {
		if err := s.AbortTransaction(t.Context()); err != nil {
			t.Error(err)
		}
	})
	expect("after two", map[string]float64{"transactions_open": 0, "transactions_started_total": 2, "transactions_committed_total": 1, "transactions_aborted_total": 1})
	until(t, "the log is truncated", func() error {
		for range 20 {
			if _, err := c.InsertOne(t.Context(), bson.D{{Key: "pad", Value: strings.Repeat("x", 8<<10)}}); err != nil {
				t.Fatal(err)
			}
		}
		if gauges(t, port)["oplog_truncations_total"] == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	if err := idle.more(); !lost(err) {
		t.Errorf("an open stream whose place is gone: %v", err)
	}
	expect("when the log is truncated", map[string]float64{"change_streams_open": 0, "change_streams_lost_total": 1, "oplog_history_short": 1})
	if n := gauges(t, port)["oplog_history_seconds"]; !(n >= 0 && n < 3600) {
		t.Errorf("the log reaches back %v seconds", n)
	}
	var status struct {
		OplogTruncation struct {
			OplogMinRetentionHours float64
			TruncateCount          int64
			HistorySecs            *int64
			ShorterThanRetention   bool
		}
	}
	if err := db.RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Decode(&status); err != nil {
		t.Fatal(err)
	}
	if o := status.OplogTruncation; o.OplogMinRetentionHours != 24 || o.TruncateCount == 0 || o.HistorySecs == nil || !o.ShorterThanRetention {
		t.Errorf("serverStatus().oplogTruncation: %+v", o)
	}
	if n := strings.Count(s.Output(), "the log is full before it has as much history as it should"); n != 1 {
		t.Errorf("the log says %d times that it is short", n)
	}
}
