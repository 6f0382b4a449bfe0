package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/e2e/hosts"
	"github.com/mayflydb/mayfly/internal/testkit"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// askTimeout is how long one member may take to answer what this test asks of it.
const askTimeout = 2 * time.Second

// member is one member of the set: a directory, and the process that has it now.
type member struct {
	number  int
	dir     string
	address string
	client  *mongo.Client // of this member alone
	t       *testing.T
	network hosts.Network
	log     *os.File
	taken   atomic.Bool // a step of the schedule has it
	disk    *hosts.Disk // of its own; nil for none
	set     string      // of which it is a member
	founds  bool        // alone

	mu     sync.Mutex
	cmd    *exec.Cmd     // nil: not running
	ended  chan struct{} // closed when cmd has
	killed bool          // by this test
	code   int           // with which the last process ended
	// frail is set while the process may end by itself: its disk is full.
	frail bool
}

// start starts the process.
func (m *member) start() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd != nil {
		return
	}
	args := append([]string{"serve", "--dbpath", m.dir, "--nounixsocket", "--replSet", m.set,
		"--setParameter", "ttlMonitorSleepSecs=1", "--setParameter", "enableTestCommands=1", "--oplogSize", fmt.Sprint(oplogMegabytes)},
		m.network.Listen(m.number)...)
	if m.founds {
		args = append(args, "--initiate")
	}
	cmd := exec.Command(testkit.Binary(m.t), args...)
	cmd.Stdout, cmd.Stderr = m.log, m.log
	if err := m.network.Start(m.number, cmd); err != nil {
		m.t.Errorf("member %d: %v", m.number, err)
		return
	}
	ended := make(chan struct{})
	m.cmd, m.ended, m.killed = cmd, ended, false
	go func() {
		err := cmd.Wait()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.cmd, m.code = nil, cmd.ProcessState.ExitCode()
		switch {
		case m.killed:
		case m.frail:
			m.t.Logf("member %d has ended, as its disk is full: %v", m.number, err)
		default:
			m.t.Errorf("member %d has ended by itself: %v; its output: %s", m.number, err, m.log.Name())
		}
		close(ended)
	}()
}

// signal sends the process a signal; false where there is none.
func (m *member) signal(s syscall.Signal) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		return false
	}
	if s == syscall.SIGKILL || s == syscall.SIGTERM {
		m.killed = true
	}
	return m.cmd.Process.Signal(s) == nil
}

// end sends a signal that ends the process, and waits until it has ended.
func (m *member) end(s syscall.Signal) {
	m.mu.Lock()
	ended := m.ended
	m.mu.Unlock()
	if m.signal(s) {
		<-ended
	}
}

// setFrail says whether the process may end by itself.
func (m *member) setFrail(frail bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frail = frail
}

// setClock sets the process's clock to be so far off the computer's, if there is a process.
func (m *member) setClock(off time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd == nil {
		return nil
	}
	return setClock(m.cmd.Process.Pid, off)
}

// admin asks the member for something.
func (m *member) admin(ctx context.Context, answer any, command ...bson.E) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	r := m.client.Database("admin").RunCommand(ctx, bson.D(command), options.RunCmd().SetReadPreference(readpref.Nearest()))
	if answer == nil {
		return r.Err()
	}
	return r.Decode(answer)
}

// status is what replSetGetStatus says, as far as this test wants to know.
type status struct {
	State   int   `bson:"myState"`
	Term    int64 `bson:"term"`
	Members []struct {
		ID    int    `bson:"_id"`
		State string `bson:"stateStr"`
	} `bson:"members"`
}

// States of members.
const (
	statePrimary   = 1
	stateSecondary = 2
)

func (m *member) status(ctx context.Context) (s status, err error) {
	err = m.admin(ctx, &s, bson.E{Key: "replSetGetStatus", Value: 1})
	return s, err
}

const (
	setName            = "rs0"
	members            = 3
	alreadyInitialized = 23
	// oplogMegabytes is enough for all that is written between two looks.
	oplogMegabytes = 500
)

// set is the set under test.
type set struct {
	t       *testing.T
	network hosts.Network
	members []*member

	losing  atomic.Bool    // a disk was lost, and its member is not back
	healing sync.WaitGroup // waits for that
}

// startSet starts the processes and makes them a set, all of whose members vote.
func startSet(t *testing.T) *set {
	t.Helper()
	s := &set{t: t, network: hosts.New(t, members)}
	dir := t.TempDir()
	var config bson.A
	for i := range members {
		m := &member{number: i, dir: filepath.Join(dir, fmt.Sprint(i)), address: s.network.Address(i), t: t, network: s.network, set: setName}
		if err := os.MkdirAll(m.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		var err error
		if m.disk, err = hosts.Mount(m.dir); err != nil {
			m.disk = nil
			t.Logf("member %d has no disk of its own, which could be full: %v", i, err)
		}
		if m.log, err = os.CreateTemp(hosts.LogDirectory(), fmt.Sprintf("nemesis-%d-*.log", i)); err != nil {
			t.Fatal(err)
		}
		m.client, err = mongo.Connect(options.Client().ApplyURI("mongodb://" + m.address + "/?directConnection=true").
			SetServerSelectionTimeout(askTimeout).SetConnectTimeout(askTimeout))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.close)
		m.start()
		s.members = append(s.members, m)
		config = append(config, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: m.address}})
	}
	until(t, "the set is made", func(ctx context.Context) error {
		err := s.members[0].admin(ctx, nil, bson.E{Key: "replSetInitiate", Value: bson.D{{Key: "_id", Value: setName}, {Key: "members", Value: config}}})
		var server mongo.ServerError
		if errors.As(err, &server) && server.HasErrorCode(alreadyInitialized) { // by an attempt that was answered too late
			return nil
		}
		return err
	})
	until(t, "all members serve and vote", s.whole)
	return s
}

// close ends the process.
func (m *member) close() {
	disconnect(m.client)
	m.end(syscall.SIGKILL)
	if m.disk != nil {
		if err := m.disk.Unmount(); err != nil {
			m.t.Error(err)
		}
	}
	m.showLog()
}

// showLog tells how the output of a member ends, where the test has failed, and keeps it.
func (m *member) showLog() {
	defer m.log.Close()
	name := m.log.Name()
	if !m.t.Failed() {
		_ = os.Remove(name)
		return
	}
	b, err := os.ReadFile(name)
	if err != nil {
		m.t.Log(err)
	}
	const most = 4 << 10
	m.t.Logf("output of member %d (%s) ends:\n%s", m.number, name, b[max(len(b)-most, 0):])
}

// whole says whether all members serve and vote.
func (s *set) whole(ctx context.Context) error {
	primaries := 0
	for _, m := range s.members {
		st, err := m.status(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("member %d: %w", m.number, err)
		case st.State == statePrimary:
			primaries++
		case st.State != stateSecondary:
			return fmt.Errorf("member %d is in state %d", m.number, st.State)
		}
		for _, other := range st.Members {
			if other.State != "PRIMARY" && other.State != "SECONDARY" {
				return fmt.Errorf("member %d sees %d as %s", m.number, other.ID, other.State)
			}
		}
	}
	if primaries != 1 {
		return fmt.Errorf("%d primaries", primaries)
	}
	var c struct{ Config struct{ Members []bson.M } }
	if err := s.members[0].admin(ctx, &c, bson.E{Key: "replSetGetConfig", Value: 1}); err != nil {
		return err
	}
	for _, m := range c.Config.Members {
		if m["newlyAdded"] == true {
			return fmt.Errorf("%v does not vote yet", m["host"])
		}
	}
	return nil
}

// connect connects a driver to the set.
func (s *set) connect() *mongo.Client {
	s.t.Helper()
	c, err := mongo.Connect(options.Client().ApplyURI(s.uri()).SetServerSelectionTimeout(opTimeout).
		SetHeartbeatInterval(500 * time.Millisecond).SetConnectTimeout(time.Second).SetTimeout(opTimeout))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { disconnect(c) })
	return c
}

// uri is the connection string of the set.
func (s *set) uri() string {
	var hosts []string
	for _, m := range s.members {
		hosts = append(hosts, m.address)
	}
	return "mongodb://" + strings.Join(hosts, ",") + "/?replicaSet=" + setName
}

func disconnect(c *mongo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Disconnect(ctx)
}

// patience is how long the set may take for what it must come to.
const patience = 90 * time.Second

// until waits until something is so.
func until(t *testing.T, what string, is func(ctx context.Context) error) {
	t.Helper()
	end := time.Now().Add(patience)
	for {
		err := is(t.Context())
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("in vain: %s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
