package nemesis

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// raw passes messages of gRPC on as the bytes they are.
type raw struct{}

func (raw) Name() string { return "mayfly" }

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// stranger talks to a member as another member would.
type stranger struct {
	t    *testing.T
	conn *grpc.ClientConn
}

func newStranger(t *testing.T, m *member) *stranger {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+m.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &stranger{t, conn}
}

// ask opens a stream, sends messages, and returns what comes back: a message, or why
// there is none.
func (x *stranger) ask(stream string, messages ...[]byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(x.t.Context(), askTimeout)
	defer cancel()
	s, err := x.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/mayfly.Replication/"+stream)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if err := s.SendMsg(m); err != nil {
			break // RecvMsg says why
		}
	}
	var answer []byte
	err = s.RecvMsg(&answer)
	return answer, err
}

// identity is what a member says of itself to those who know the id of its set.
type identity struct {
	Raft int64
	ID   bson.ObjectID `bson:"replicaSetId"`
}

func (x *stranger) identify(set bson.ObjectID) (who identity) {
	x.t.Helper()
	answer, err := x.ask("Identify", append(make([]byte, 4), set[:]...))
	if err == nil {
		err = bson.Unmarshal(answer, &who)
	}
	if err != nil {
		x.t.Fatal(err)
	}
	return who
}

// frame is a frame of members (internal/repl/frame.go), as this test says it is.
type frame struct {
	version  byte
	set      bson.ObjectID
	group    uint32
	from, to int64
	applied  [3]uint64 // index, term, time
	wanted   uint64
	message  *raftpb.Message
}

func (f frame) bytes(t *testing.T) []byte {
	t.Helper()
	b := append([]byte{f.version}, f.set[:]...)
	b = binary.LittleEndian.AppendUint32(b, f.group)
	for _, v := range []uint64{uint64(f.from), uint64(f.to), f.applied[0], f.applied[1], f.applied[2], f.wanted} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	b = append(b, 0)
	if f.message != nil {
		m, err := proto.Marshal(f.message)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, m...)
	}
	return b
}

// picture is what strangers may not change.
type picture struct {
	terms   []int64
	primary *member
	config  string
	hashes  []string
	time    bson.Timestamp // of the cluster
}

func (s *set) picture() (p picture) {
	s.t.Helper()
	p.primary = s.primary()
	for _, m := range s.members {
		st, err := m.status(s.t.Context())
		if err != nil {
			s.t.Fatal(err)
		}
		var hash struct{ MD5 string }
		if err := m.client.Database("app").RunCommand(s.t.Context(), bson.D{{Key: "dbHash", Value: 1}}, options.RunCmd().SetReadPreference(readpref.Nearest())).Decode(&hash); err != nil {
			s.t.Fatal(err)
		}
		p.terms, p.hashes = append(p.terms, st.Term), append(p.hashes, hash.MD5)
	}
	var c struct {
		Config  bson.Raw
		Cluster struct {
			Time bson.Timestamp `bson:"clusterTime"`
		} `bson:"$clusterTime"`
	}
	if err := s.members[0].admin(s.t.Context(), &c, bson.E{Key: "replSetGetConfig", Value: 1}); err != nil {
		s.t.Fatal(err)
	}
	p.config, p.time = c.Config.String(), c.Cluster.Time
	return p
}

// unchanged demands that nothing is other than in a picture, but that time went by.
func (s *set) unchanged(before picture) {
	s.t.Helper()
	until(s.t, "all members serve", s.whole)
	now := s.picture()
	if fmt.Sprint(now.terms, now.hashes, now.config) != fmt.Sprint(before.terms, before.hashes, before.config) || now.primary != before.primary {
		s.t.Errorf("a stranger has changed the set:\n%v\n%v", now, before)
	}
	if ahead := int64(now.time.T) - time.Now().Unix(); ahead > 60 {
		s.t.Errorf("a stranger has moved the time of the set %d s ahead", ahead)
	}
}

// tells says whether a member's log tells of something.
func (m *member) tells(what string) error {
	b, err := os.ReadFile(m.log.Name())
	if err == nil && !bytes.Contains(b, []byte(what)) {
		err = fmt.Errorf("the log does not tell of %q", what)
	}
	return err
}

// logged demands that a member's log tells of something.
func (m *member) logged(t *testing.T, what string) {
	t.Helper()
	until(t, "a refusal is logged", func(context.Context) error { return m.tells(what) })
}

// TestStrangers has strangers speak to the members of a set: each is refused, the log
// tells of it, and nothing changes.
func TestStrangers(t *testing.T) {
	s := startSet(t)
	if _, err := s.connect().Database("app").Collection("docs").InsertMany(t.Context(), []any{bson.D{{Key: "_id", Value: 1}}, bson.D{{Key: "_id", Value: 2}}}); err != nil {
		t.Fatal(err)
	}
	s.rest()
	before := s.picture()
	m := s.members[0]
	t.Run("frames", func(t *testing.T) { strangeFrames(t, s, m) })
	t.Run("garbage", func(t *testing.T) { garbage(t, m) })
	s.unchanged(before)
	t.Run("another set", func(t *testing.T) { anotherSet(t, s) })
	s.unchanged(before)
	t.Run("clock", func(t *testing.T) { wrongClock(t, s) })
	s.unchanged(before)
	t.Run("clock of the primary", func(t *testing.T) { wrongPrimary(t, s) })
}

// strangeFrames sends frames that are whole, and not for this member.
func strangeFrames(t *testing.T, s *set, m *member) {
	x := newStranger(t, m)
	var conf struct {
		Config struct {
			Settings struct {
				ID bson.ObjectID `bson:"replicaSetId"`
			}
		}
	}
	if err := m.admin(t.Context(), &conf, bson.E{Key: "replSetGetConfig", Value: 1}); err != nil {
		t.Fatal(err)
	}
	set := conf.Config.Settings.ID
	if who := x.identify(bson.ObjectID{}); who != (identity{}) {
		t.Errorf("a stranger is told %+v", who)
	}
	me, other := x.identify(set), newStranger(t, s.members[1]).identify(set)
	good := frame{version: 1, set: set, from: other.Raft, to: me.Raft}
	with := func(change func(f *frame)) []byte {
		f := good
		change(&f)
		return f.bytes(t)
	}
	kind := func(k raftpb.MessageType, from, to int64) *raftpb.Message {
		a, b, term := uint64(from), uint64(to), uint64(1<<40)
		return &raftpb.Message{Type: &k, From: &a, To: &b, Term: &term}
	}
	for _, c := range []struct {
		name  string
		frame []byte
		code  codes.Code
		log   string
	}{
		{"another version", with(func(f *frame) { f.version = 2 }), codes.InvalidArgument, "a frame that this version does not know"},
		{"another set", with(func(f *frame) { f.set[3]++; f.message = kind(raftpb.MsgApp, f.from, f.to) }), codes.FailedPrecondition, "belongs to another replica set"},
		{"no set, and not a member", with(func(f *frame) { f.set = bson.ObjectID{}; f.from++; f.message = kind(raftpb.MsgVote, f.from, f.to) }), codes.FailedPrecondition, "belongs to another replica set"},
		{"another directory", with(func(f *frame) { f.to++; f.message = kind(raftpb.MsgApp, f.from, f.to) }), codes.FailedPrecondition, "it has another data directory"},
		{"another group", with(func(f *frame) { f.group = 7 }), codes.NotFound, "this host has no member of group 7"},
		{"another sender in its message", with(func(f *frame) { f.message = kind(raftpb.MsgApp, f.from+1, f.to) }), codes.InvalidArgument, "another sender or receiver"},
		{"a snapshot where none belongs", with(func(f *frame) { f.message = kind(raftpb.MsgSnap, f.from, f.to) }), codes.InvalidArgument, "a snapshot needs a separate stream"},
		{"nothing", nil, codes.InvalidArgument, "a frame that this version does not know"},
		{"too short", good.bytes(t)[:40], codes.InvalidArgument, "a frame that this version does not know"},
		{"a message that is none", append(good.bytes(t), 0xff, 0xff, 0xff), codes.InvalidArgument, "a frame that this version does not know"},
	} {
		if _, err := x.ask("Frames", c.frame); grpcstatus.Code(err) != c.code {
			t.Errorf("%s: %v", c.name, err)
		}
		m.logged(t, c.log)
	}
	// Who is a member and has a time that cannot be is not believed in that.
	far := uint64(time.Now().AddDate(3, 0, 0).Unix()) << 32
	for _, f := range [][]byte{with(func(f *frame) { f.applied[2] = far }), with(func(f *frame) { f.wanted = far })} {
		if _, err := x.ask("Frames", f); grpcstatus.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a time that is too far ahead: %v", err)
		}
	}
	m.logged(t, "refused the cluster time of a member")
	// Nor is one whose numbers cannot be: raft would end the process.
	for _, k := range []raftpb.MessageType{raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgVote, raftpb.MsgAppResp, raftpb.MsgTimeoutNow, raftpb.MsgProp} {
		if _, err := x.ask("Frames", with(func(f *frame) { f.message = kind(k, f.from, f.to) })); grpcstatus.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%v of a term that cannot be: %v", k, err)
		}
	}
	m.logged(t, "a frame that no member sends")
}

// garbage sends what is no frame, no stream and no HTTP.
func garbage(t *testing.T, m *member) {
	r := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	x := newStranger(t, m)
	for _, stream := range []string{"Frames", "Snapshot", "Identify", "Health", "Nothing"} {
		for range 20 {
			if _, err := x.ask(stream, noise(r.IntN(300))); err == nil || grpcstatus.Code(err) == codes.DeadlineExceeded {
				t.Fatalf("%s: noise was answered with %v", stream, err)
			}
		}
	}
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	until(t, "all kinds of garbage are in the log", func(context.Context) error { // which takes so many lines at once
		c, err := net.Dial("tcp", m.address)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write(append([]byte(preface[:4+r.IntN(len(preface)-3)]), noise(1+r.IntN(2000))...)); err == nil {
			_ = c.(*net.TCPConn).CloseWrite()
		}
		_ = c.SetReadDeadline(time.Now().Add(patience))
		if _, err := io.Copy(io.Discard, c); os.IsTimeout(err) {
			t.Error("garbage keeps its connection")
		}
		return m.tells("the connection ended without a frame of a member")
	})
}

// anotherSet puts a member of another set where one of this set was: neither takes the
// other for its own.
func anotherSet(t *testing.T, s *set) {
	primary := s.primary()
	var gone *member
	for _, m := range s.members {
		if m != primary {
			gone = m
		}
	}
	gone.end(syscall.SIGTERM)
	dir := t.TempDir()
	other := &member{number: gone.number, dir: dir, address: gone.address, client: gone.client, t: t, network: s.network, log: gone.log, set: "rs9", founds: true}
	other.start()
	defer other.end(syscall.SIGKILL)
	until(t, "the other set serves", func(ctx context.Context) error {
		return other.client.Database("app").RunCommand(ctx, bson.D{{Key: "insert", Value: "theirs"}, {Key: "documents", Value: bson.A{bson.D{}}}}).Err()
	})
	other.logged(t, "it has another data directory")
	primary.logged(t, "cannot replace a member that lost its data")
	var c struct {
		Config struct {
			ID string `bson:"_id"`
		}
	}
	if err := other.admin(t.Context(), &c, bson.E{Key: "replSetGetConfig", Value: 1}); err != nil || c.Config.ID != "rs9" {
		t.Errorf("the other set is %q: %v", c.Config.ID, err)
	}
	if st, err := primary.status(t.Context()); err != nil || st.State != statePrimary || strings.Contains(fmt.Sprint(st.Members), fmt.Sprintf("{%d SECONDARY}", gone.number)) {
		t.Errorf("the set takes it for its member: %v, %v", st, err)
	}
	other.end(syscall.SIGTERM)
	gone.start()
	until(t, "all members serve", s.whole)
}

// wrongClock has a secondary's clock go wrong by more than a year.
func wrongClock(t *testing.T, s *set) {
	if !clocksJump {
		return
	}
	for _, m := range s.members {
		if m == s.primary() {
			continue
		}
		for _, off := range []time.Duration{2 * 365 * 24 * time.Hour, -2 * 365 * 24 * time.Hour} {
			if err := m.setClock(off); err != nil {
				t.Fatal(err)
			}
			s.rest() // it takes part in writes all the same
		}
		if err := m.setClock(0); err != nil {
			t.Fatal(err)
		}
		break
	}
}

// wrongPrimary has the primary's clock go wrong by two years. The others follow, since the
// log has its times; nothing expires early; and the set's time does not go back when the
// clock does, nor under another primary.
func wrongPrimary(t *testing.T, s *set) {
	if !clocksJump {
		return
	}
	p := s.primary()
	run := func(m *member, command ...bson.E) {
		t.Helper()
		if err := m.client.Database("app").RunCommand(t.Context(), bson.D(command)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	run(p, bson.E{Key: "createIndexes", Value: "sessions"}, bson.E{Key: "indexes", Value: bson.A{
		bson.D{{Key: "key", Value: bson.D{{Key: "at", Value: 1}}}, {Key: "name", Value: "at_1"}, {Key: "expireAfterSeconds", Value: 3600}}}})
	run(p, bson.E{Key: "insert", Value: "sessions"}, bson.E{Key: "documents", Value: bson.A{bson.D{{Key: "at", Value: time.Now()}}}})

	const off = 2 * 365 * 24 * time.Hour
	if err := p.setClock(off); err != nil {
		t.Fatal(err)
	}
	s.rest()
	ahead := s.clusterTime(p)
	if day := uint32(24 * 3600); ahead.T < uint32(time.Now().Add(off).Unix())-day {
		t.Fatalf("the primary's clock is ahead, and the set's time is %v", ahead)
	}
	passes := func(ctx context.Context) (n int64, err error) {
		var st struct {
			Metrics struct{ TTL struct{ Passes int64 } }
		}
		err = p.admin(ctx, &st, bson.E{Key: "serverStatus", Value: 1})
		return st.Metrics.TTL.Passes, err
	}
	before, err := passes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the monitor looks twice", func(ctx context.Context) error {
		n, err := passes(ctx)
		if err == nil && n < before+2 {
			err = fmt.Errorf("%d passes, and %d before", n, before)
		}
		return err
	})
	if n, err := p.client.Database("app").Collection("sessions").CountDocuments(t.Context(), bson.D{}); err != nil || n != 1 {
		t.Errorf("%d sessions are left, which has an hour: %v", n, err)
	}

	if err := p.setClock(0); err != nil {
		t.Fatal(err)
	}
	s.rest()
	back := s.clusterTime(p)
	if back.Before(ahead) {
		t.Errorf("the time went back with the clock, from %v to %v", ahead, back)
	}
	if err := p.admin(t.Context(), nil, bson.E{Key: "replSetStepDown", Value: 60}, bson.E{Key: "secondaryCatchUpPeriodSecs", Value: 10}); err != nil {
		t.Fatal(err)
	}
	s.rest()
	next := s.primary()
	if next == p || s.clusterTime(next).Before(back) {
		t.Errorf("the next primary's time is %v, after %v", s.clusterTime(next), back)
	}
}

// clusterTime is the cluster time that a member tells.
func (s *set) clusterTime(m *member) bson.Timestamp {
	s.t.Helper()
	var answer struct {
		Cluster struct {
			Time bson.Timestamp `bson:"clusterTime"`
		} `bson:"$clusterTime"`
	}
	if err := m.admin(s.t.Context(), &answer, bson.E{Key: "ping", Value: 1}); err != nil {
		s.t.Fatal(err)
	}
	return answer.Cluster.Time
}
