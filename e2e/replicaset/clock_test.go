package replicaset

import (
	"strings"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/testkit"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A client's cluster time advances a member's, unless it is further ahead of the member's
// clock than maxAcceptableLogicalClockDriftSecs: then the operation fails, and the member's
// time stays as it is.
func TestClusterTimeOfClient(t *testing.T) {
	const name, drift = "maxAcceptableLogicalClockDriftSecs", 600
	s := testkit.Start(t, "--replSet", "rs0", "--initiate", "--setParameter", name+"=600")
	type times struct {
		Cluster struct {
			Time bson.Timestamp `bson:"clusterTime"`
		} `bson:"$clusterTime"`
		Drift int64 `bson:"maxAcceptableLogicalClockDriftSecs"`
	}
	// at runs a command that says the time of a clock that is so far ahead.
	at := func(ahead time.Duration) (got times, told bson.Timestamp, err error) {
		c := s.Direct() // a driver goes on with the latest time that it was told
		told = bson.Timestamp{T: uint32(time.Now().Add(ahead).Unix()), I: 1}
		session, err := c.StartSession()
		if err != nil {
			t.Fatal(err)
		}
		defer session.EndSession(t.Context())
		doc, err := bson.Marshal(bson.D{{Key: "$clusterTime", Value: bson.D{{Key: "clusterTime", Value: told}}}})
		if err == nil {
			err = session.AdvanceClusterTime(doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		err = c.Database("admin").RunCommand(mongo.NewSessionContext(t.Context(), session), bson.D{{Key: "getParameter", Value: 1}, {Key: name, Value: 1}}).Decode(&got)
		return got, told, err
	}
	until(t, "a primary", func() error { _, _, err := at(0); return err })

	got, told, err := at(drift * time.Second / 2)
	if err != nil || got.Drift != drift || got.Cluster.Time.Before(told) {
		t.Errorf("a time within the bound: %+v after %v, %v", got, told, err)
	}
	for _, ahead := range []time.Duration{2 * drift * time.Second, 5 * 365 * 24 * time.Hour} {
		if _, _, err := at(ahead); code(err) != 205 || !strings.Contains(err.Error(), "is too far from this node's wall clock time") {
			t.Errorf("%v ahead: %v", ahead, err)
		}
	}
	if now, _, err := at(0); err != nil || now.Cluster.Time.T > uint32(time.Now().Add(drift*time.Second).Unix()) {
		t.Errorf("what is refused advances the member to %v: %v", now.Cluster.Time, err)
	}
	for _, wrong := range []string{"0", "-1", "x", "2147483648"} {
		if exit, out := testkit.Exec(t, nil, "serve", "--dbpath", t.TempDir(), "--setParameter", name+"="+wrong); exit != config.ExitBadOptions || !strings.Contains(out, name) {
			t.Errorf("%s: exit code %d, %s", wrong, exit, out)
		}
	}
}
