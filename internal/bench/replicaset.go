package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// replicaSet is three server processes on this machine that are one replica set, and a
// driver's client of it. A write returns when the disks of two have it.
type replicaSet struct {
	mayfly  // only the client's side is used
	members []*mayfly
}

const (
	setMembers = 3
	setName    = "bench"
)

func startReplicaSet(ctx context.Context, dir string, o *Options, more ...string) (_ *replicaSet, err error) {
	return startSetOf(ctx, dir, "member", setMembers, o, more...)
}

// startSetOf starts a set of so many members, whose directories' names begin with name.
func startSetOf(ctx context.Context, dir, name string, members int, o *Options, more ...string) (_ *replicaSet, err error) {
	s := &replicaSet{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	// A row may have its own set after another one.
	if dir, err = os.MkdirTemp(dir, "set-"); err != nil {
		return s, err
	}
	var hosts []string
	for i := range members {
		m, err := startServer(ctx, dir, fmt.Sprintf("%s-%d", name, i), o, memberArgs(more...)...)
		if err != nil {
			return s, err
		}
		s.members, hosts = append(s.members, m), append(hosts, local(m.port))
	}
	if err := s.initiate(ctx, hosts); err != nil {
		return s, err
	}
	s.padding = padding
	return s, s.connect("mongodb://" + strings.Join(hosts, ",") + "/?replicaSet=" + setName)
}

// memberArgs are the options of a member of a set.
func memberArgs(more ...string) []string {
	return append([]string{"--replSet", setName, "--bind_ip", "127.0.0.1"}, more...)
}

// initiate founds the set, and waits until all members vote.
func (s *replicaSet) initiate(ctx context.Context, hosts []string) error {
	c, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + hosts[0] + "/?directConnection=true"))
	if err != nil {
		return err
	}
	defer func() { _ = c.Disconnect(ctx) }()
	var members bson.A
	for i, h := range hosts {
		members = append(members, doc("_id", i, "host", h))
	}
	admin := c.Database("admin")
	if err := admin.RunCommand(ctx, doc("replSetInitiate", doc("_id", setName, "members", members))).Err(); err != nil {
		return err
	}
	for begun := time.Now(); time.Since(begun) < startTimeout; time.Sleep(50 * time.Millisecond) {
		var status struct {
			Members []struct {
				StateStr string `bson:"stateStr"`
			}
			VotingMembersCount int `bson:"votingMembersCount"`
		}
		if err := admin.RunCommand(ctx, doc("replSetGetStatus", 1)).Decode(&status); err != nil {
			return err
		}
		ready := 0
		for _, m := range status.Members {
			if m.StateStr == "PRIMARY" || m.StateStr == "SECONDARY" {
				ready++
			}
		}
		if ready == len(hosts) && status.VotingMembersCount == len(hosts) {
			return nil
		}
	}
	return errors.New("the replica set did not become ready")
}

// onSecondaries is the same set with reads from secondaries.
func (s *replicaSet) onSecondaries() *replicaSet {
	r := *s
	r.plain = s.collection("documents", options.Collection().SetReadPreference(readpref.Secondary()))
	return &r
}

func (s *replicaSet) worker(context.Context) (worker, error) { return &mayflyWorker{&s.mayfly}, nil }

// caughtUp waits until all members hold what was written so far.
func (s *replicaSet) caughtUp(ctx context.Context) error {
	command := bson.D{{Key: "insert", Value: "marks"}, {Key: "documents", Value: bson.A{bson.D{}}},
		{Key: "writeConcern", Value: doc("w", len(s.members), "wtimeout", int(startTimeout/time.Millisecond))}}
	return s.client.Database("bench").RunCommand(ctx, command).Err()
}

// primary is the member that accepts writes.
func (s *replicaSet) primary(ctx context.Context) (*mayfly, error) {
	var hello struct{ Primary string }
	if err := s.client.Database("admin").RunCommand(ctx, doc("hello", 1)).Decode(&hello); err != nil {
		return nil, err
	}
	for _, m := range s.members {
		if local(m.port) == hello.Primary {
			return m, nil
		}
	}
	return nil, errors.New("no member is primary")
}

func (s *replicaSet) cpu() (total time.Duration, err error) {
	for _, m := range s.members {
		used, err := m.cpu()
		if err != nil {
			return 0, err
		}
		total += used
	}
	return total, nil
}

func (s *replicaSet) close() (err error) {
	if s.client != nil {
		_ = s.client.Disconnect(context.Background()) // the servers go anyway
	}
	for _, m := range s.members {
		err = errors.Join(err, m.close())
	}
	return err
}
