package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// prototype is three members of a raft group in this process, and nothing else: the
// library, transport, store and disk of the server's replica sets, with the loop from the
// library's manual. A proposal is a number of bytes, which each member stores twice, as
// the server does: in its log and as data. Its throughput is the most that a server
// can on the same machine.
//
// A round is one batch of Pebble (log, hard state and data) and one sync. Members talk
// over TCP, one gRPC stream for each direction; they read their log back from memory.
type prototype struct {
	members []*bareMember
}

const (
	prototypeMembers = 3
	// prototypeTick is a tenth of the election timeout.
	prototypeTick = 100 * time.Millisecond
	// bareQueue bounds what waits for a member, and for one of its streams.
	bareQueue = 4096
	// bareLog is how many entries stay in memory behind what is applied.
	bareLog = 4096
	// maxBareMessage bounds a message, in bytes.
	maxBareMessage = 64 << 20
)

// startPrototype starts the members and waits until one leads.
func startPrototype(ctx context.Context, dir string) (_ *prototype, err error) {
	p := &prototype{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	for id := uint64(1); id <= prototypeMembers; id++ {
		m, err := newBareMember(filepath.Join(dir, "prototype-"+strconv.FormatUint(id, 10)), id)
		if err != nil {
			return p, err
		}
		p.members = append(p.members, m)
	}
	for _, m := range p.members {
		for _, to := range p.members {
			if to == m {
				continue
			}
			if err := m.connect(to); err != nil {
				return p, err
			}
		}
	}
	for _, m := range p.members {
		m.work.Go(m.run)
	}
	for begun := time.Now(); time.Since(begun) < startTimeout; time.Sleep(10 * time.Millisecond) {
		if err := p.propose(ctx, []byte("first")); err == nil {
			return p, nil
		}
	}
	return p, errors.New("no member of the prototype is leader")
}

func (p *prototype) close() (err error) {
	for _, m := range p.members {
		m.stop()
	}
	for _, m := range p.members {
		m.work.Wait()
		err = errors.Join(err, m.failed, m.db.Close())
	}
	return err
}

// cpu is this process's: proposers are in it, too.
func (p *prototype) cpu() (time.Duration, error) { return ownCPU() }

func (p *prototype) reset(context.Context, layout) error { return nil }

func (p *prototype) worker(context.Context) (worker, error) { return &bareWorker{p: p}, nil }

// bareWorker is a proposer: its rows have operations of their own.
type bareWorker struct {
	worker
	p *prototype
}

func (w *bareWorker) close() error { return nil }

// propose returns when the payload is on the disks of two members and applied by the
// leader. Errors: errNoLeader.
func (p *prototype) propose(ctx context.Context, payload []byte) error {
	for _, m := range p.members {
		b := bareProposal{payload, make(chan error, 1)}
		select {
		case m.proposed <- b:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := <-b.done; !errors.Is(err, errNoLeader) {
			return err
		}
	}
	return errNoLeader
}

var errNoLeader = errors.New("the member of the prototype is not leader")

// bareMember is one member: a goroutine.
type bareMember struct {
	id       uint64
	rn       *raft.RawNode
	log      *raft.MemoryStorage
	db       *pebble.DB
	listener net.Listener
	server   *grpc.Server
	received chan *raftpb.Message
	proposed chan bareProposal
	out      map[uint64]chan []byte
	waiting  []bareProposal // whose entries are in the log, in its order
	places   []uint64       // of these
	applied  uint64
	ctx      context.Context
	stop     context.CancelFunc
	work     sync.WaitGroup
	failed   error
}

type bareProposal struct {
	payload []byte
	done    chan error
}

func newBareMember(dir string, id uint64) (*bareMember, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	m := &bareMember{id: id, log: raft.NewMemoryStorage(), received: make(chan *raftpb.Message, bareQueue), proposed: make(chan bareProposal, bareQueue), out: map[uint64]chan []byte{}}
	var voters []uint64
	for id := uint64(1); id <= prototypeMembers; id++ {
		voters = append(voters, id)
	}
	first := uint64(1)
	snapshot := &raftpb.Snapshot{Metadata: &raftpb.SnapshotMetadata{ConfState: &raftpb.ConfState{Voters: voters}, Index: &first, Term: &first}}
	err := m.log.ApplySnapshot(snapshot)
	if err != nil {
		return nil, err
	}
	m.applied = first
	if m.rn, err = raft.NewRawNode(&raft.Config{ID: id, ElectionTick: 10, HeartbeatTick: 1, Storage: m.log, Applied: first,
		MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 256, CheckQuorum: true, PreVote: true, Logger: &raft.DefaultLogger{Logger: log.New(io.Discard, "", 0)}}); err != nil {
		return nil, err
	}
	if m.listener, err = net.Listen("tcp", local(0)); err != nil {
		return nil, err
	}
	if m.db, err = pebble.Open(dir, &pebble.Options{MemTableSize: 64 << 20, MemTableStopWritesThreshold: 4, Logger: quiet{}}); err != nil {
		return nil, errors.Join(err, m.listener.Close())
	}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.server = grpc.NewServer(grpc.ForceServerCodecV2(bareCodec{}), grpc.MaxRecvMsgSize(maxBareMessage))
	m.server.RegisterService(&bareService, m)
	m.work.Go(func() { _ = m.server.Serve(m.listener) }) // until Stop
	m.work.Go(func() {
		<-m.ctx.Done()
		m.server.Stop()
	})
	return m, nil
}

// bareCodec passes messages on as the bytes they are.
type bareCodec struct{}

func (bareCodec) Name() string { return "bare" }

func (bareCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (bareCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var bareService = grpc.ServiceDesc{ServiceName: "bench.Prototype", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{
	{StreamName: "Messages", ClientStreams: true, ServerStreams: true, Handler: func(srv any, s grpc.ServerStream) error {
		return srv.(*bareMember).receive(s)
	}},
}}

// receive takes messages from one stream.
func (m *bareMember) receive(s grpc.ServerStream) error {
	for {
		var b []byte
		if err := s.RecvMsg(&b); err != nil {
			return err
		}
		msg := &raftpb.Message{}
		if err := proto.Unmarshal(b, msg); err != nil {
			return err
		}
		select {
		case m.received <- msg:
		case <-m.ctx.Done():
			return m.ctx.Err()
		}
	}
}

// connect starts the goroutine that sends to another member.
func (m *bareMember) connect(to *bareMember) error {
	conn, err := grpc.NewClient("passthrough:///"+to.listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bareCodec{}), grpc.MaxCallSendMsgSize(maxBareMessage)))
	if err != nil {
		return err
	}
	s, err := conn.NewStream(m.ctx, &bareService.Streams[0], "/bench.Prototype/Messages", grpc.WaitForReady(true))
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	queue := make(chan []byte, bareQueue)
	m.out[to.id] = queue
	m.work.Go(func() {
		defer conn.Close()
		for {
			select {
			case b := <-queue:
				if s.SendMsg(b) != nil {
					return // it ends
				}
			case <-m.ctx.Done():
				return
			}
		}
	})
	return nil
}

// run is the goroutine.
func (m *bareMember) run() {
	tick := time.NewTicker(prototypeTick)
	defer tick.Stop()
	for {
		select {
		case msg := <-m.received:
			_ = m.rn.Step(msg) // raft refuses an outdated one
		case b := <-m.proposed:
			m.step(b)
		case <-tick.C:
			m.rn.Tick()
		case <-m.ctx.Done():
			m.fail(errNoLeader)
			return
		}
		m.drain()
		if m.rn.BasicStatus().RaftState != raft.StateLeader {
			m.fail(errNoLeader)
		}
		for m.rn.HasReady() {
			if err := m.round(); err != nil {
				m.failed = fmt.Errorf("prototype: %w", err)
				m.fail(m.failed)
				m.stop()
				return
			}
		}
	}
}

// drain takes everything else that is waiting.
func (m *bareMember) drain() {
	for range bareQueue {
		select {
		case msg := <-m.received:
			_ = m.rn.Step(msg)
		case b := <-m.proposed:
			m.step(b)
		default:
			return
		}
	}
}

func (m *bareMember) step(b bareProposal) {
	if m.rn.BasicStatus().RaftState != raft.StateLeader || m.rn.Propose(b.payload) != nil {
		b.done <- errNoLeader
		return
	}
	m.waiting = append(m.waiting, b)
}

func (m *bareMember) fail(err error) {
	for _, b := range m.waiting {
		b.done <- err
	}
	m.waiting, m.places = nil, nil
}

// round is the library's: persist, send, apply, advance.
func (m *bareMember) round() error {
	rd := m.rn.Ready()
	// What was proposed is the end of the new entries, one for each.
	for i := len(rd.Entries) - (len(m.waiting) - len(m.places)); i < len(rd.Entries); i++ {
		m.places = append(m.places, rd.Entries[i].GetIndex())
	}
	batch := m.db.NewBatch()
	for _, e := range rd.Entries {
		if err := batch.Set(bareKey('l', e.GetIndex()), e.GetData(), nil); err != nil {
			return err
		}
	}
	for _, e := range rd.CommittedEntries {
		m.applied = e.GetIndex()
		if err := batch.Set(bareKey('d', m.applied*0x9e3779b97f4a7c15), e.GetData(), nil); err != nil {
			return err
		}
	}
	if !raft.IsEmptyHardState(rd.HardState) {
		b, err := proto.Marshal(rd.HardState)
		if err != nil {
			return err
		}
		if err := errors.Join(batch.Set([]byte{'h'}, b, nil), m.log.SetHardState(rd.HardState)); err != nil {
			return err
		}
	}
	if err := m.db.Apply(batch, &pebble.WriteOptions{Sync: rd.MustSync}); err != nil {
		return err
	}
	if err := errors.Join(batch.Close(), m.log.Append(rd.Entries)); err != nil {
		return err
	}
	if err := m.send(rd.Messages); err != nil {
		return err
	}
	for len(m.places) > 0 && m.places[0] <= m.applied {
		m.waiting[0].done <- nil
		m.waiting, m.places = m.waiting[1:], m.places[1:]
	}
	m.rn.Advance(rd)
	if first, err := m.log.FirstIndex(); err != nil || m.applied < first+2*bareLog {
		return err
	}
	return errors.Join(m.db.DeleteRange(bareKey('l', 0), bareKey('l', m.applied-bareLog), pebble.NoSync), m.log.Compact(m.applied-bareLog))
}

func bareKey(kind byte, n uint64) []byte { return binary.BigEndian.AppendUint64([]byte{kind}, n) }

// send queues messages; what does not fit is lost, and raft sends it again.
func (m *bareMember) send(messages []*raftpb.Message) error {
	for _, msg := range messages {
		b, err := proto.Marshal(msg)
		if err != nil {
			return err
		}
		select {
		case m.out[msg.GetTo()] <- b:
		default:
			m.rn.ReportUnreachable(msg.GetTo())
		}
	}
	return nil
}
