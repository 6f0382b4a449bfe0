package repl

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Health is what a member reports about itself when it is asked.
type Health struct {
	State   MemberState
	Applied Position
	// Version and Term are those of the member's configuration.
	Version, Term int64
	Elected       Timestamp     // when it began to accept writes; 0 if it does not
	Up            time.Duration // since it was opened
	Ping          time.Duration // how long the question and the answer took
}

// healthTimeout is how long a member may take to report its health. mongod's
// heartbeats may take ten seconds, which is too long for a client that asks for the
// state of a set.
const healthTimeout = time.Second

// Health returns the health of this member.
func (m *Member) Health() Health {
	s := m.State()
	h := Health{State: s.Member, Applied: s.Applied, Up: m.o.Wall().Sub(m.opened)}
	if s.Config != nil {
		h.Version, h.Term = s.Config.Version, s.Config.Term
	}
	if s.Writable {
		h.Elected = Timestamp(m.elected.Load())
	}
	return h
}

// AskOthers asks all other members of the set for their health, in parallel, and
// returns the answers by raft id. Members that do not answer within a second are left
// out.
func (m *Member) AskOthers(ctx context.Context) map[uint64]Health {
	s := m.replica.State()
	if s.Config == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	all := map[uint64]Health{}
	for _, d := range s.Config.Members {
		if d.Raft == s.ID {
			continue
		}
		asked.Go(func() {
			if h, err := m.net.askHealth(ctx, d.Host, m.store.opts.Group, d.Raft); err == nil {
				mu.Lock()
				all[d.Raft] = h
				mu.Unlock()
			}
		})
	}
	asked.Wait()
	return all
}

// askHealth asks the process at a host for the health of the member with a raft id.
func (n *Network) askHealth(ctx context.Context, host string, group Number, raft uint64) (h Health, err error) {
	conn, err := n.dial(host)
	if err != nil {
		return h, err
	}
	defer conn.Close()
	d, took, err := askOnce(ctx, conn, healthStream, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, uint32(group)), raft))
	if err != nil {
		return h, err
	}
	h.Ping = took
	var numbers [8]int64
	for i, name := range healthFields {
		var ok bool
		if numbers[i], ok = bson.ExactInt64(d.Lookup(name)); !ok {
			return h, errFrame
		}
	}
	h.State, h.Applied = MemberState(numbers[0]), Position{uint64(numbers[1]), uint64(numbers[2]), Timestamp(numbers[3])}
	h.Version, h.Term, h.Elected, h.Up = numbers[4], numbers[5], Timestamp(numbers[6]), time.Duration(numbers[7])*time.Millisecond
	return h, nil
}

// healthFields are the fields of an answer, in the order of Health; the time that a
// member is up in milliseconds.
var healthFields = [...]string{"state", "index", "term", "time", "configVersion", "configTerm", "elected", "up"}

// askOnce sends one question to a service of a member, and returns its one answer and
// how long that took, once there was a connection.
func askOnce(ctx context.Context, conn *grpc.ClientConn, stream int, question []byte) (answer bson.Doc, took time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	desc := &peerService.Streams[stream]
	s, err := conn.NewStream(ctx, desc, "/"+peerService.ServiceName+"/"+desc.StreamName)
	if err != nil {
		return nil, 0, err
	}
	begun := time.Now()
	if err := s.SendMsg(question); err != nil {
		return nil, 0, err
	}
	var b []byte
	if err := s.RecvMsg(&b); err != nil {
		return nil, 0, err
	}
	return b, time.Since(begun), bson.Validate(b, 2)
}

// serveHealth answers askHealth.
func (n *Network) serveHealth(s grpc.ServerStream) error {
	var asked []byte
	if err := s.RecvMsg(&asked); err != nil {
		return err
	}
	if len(asked) != 12 {
		return status.Error(codes.InvalidArgument, errFrame.Error())
	}
	group, raft := Number(binary.LittleEndian.Uint32(asked)), binary.LittleEndian.Uint64(asked[4:])
	n.mu.Lock()
	m := n.members[group]
	n.mu.Unlock()
	if m == nil || n.opts.Health == nil || m.State().ID != raft {
		return status.Errorf(codes.NotFound, "this host is not member %x of group %d", raft, group)
	}
	h := n.opts.Health()
	b := new(bson.Builder)
	for i, v := range []int64{int64(h.State), int64(h.Applied.Index), int64(h.Applied.Term), int64(h.Applied.Time),
		h.Version, h.Term, int64(h.Elected), h.Up.Milliseconds()} {
		b.Int64(healthFields[i], v)
	}
	return s.SendMsg([]byte(b.Finish()))
}
