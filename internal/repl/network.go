package repl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	// maxLinkFrames and maxLinkBytes bound the frames that wait to be sent to one
	// host.
	maxLinkFrames = 4096
	maxLinkBytes  = 256 << 20
	// linkBackoff is how long a link waits after a failure.
	linkBackoff = 100 * time.Millisecond
	// maxDialPause bounds the pause between two attempts to connect to a member that is not
	// there, or lets this one not in: it may come back at any time.
	maxDialPause = 3 * time.Second
	keepalives   = 5 * time.Second
	// peerWindow is how many bytes of a stream may be in flight. Where it is not set,
	// gRPC measures the best size by pings while it reads: one more exchange for each.
	peerWindow = 16 << 20
	// handshakeTimeout bounds the handshake of a connection.
	handshakeTimeout = 15 * time.Second
	// maxPeerStreams bounds the streams of one connection: a member opens one for each.
	maxPeerStreams = 8
	// maxKnownHosts bounds Network.hosts.
	maxKnownHosts = 256
	// hostHeader is the header of a stream with the sender's host.
	hostHeader = "mayfly-host"
	// removedHeader is the trailer of a stream with the raft id of a sender that was
	// removed from the set.
	removedHeader = "mayfly-removed"
)

// NetworkOptions make a Network.
type NetworkOptions struct {
	// Host is the host:port by which others reach this process.
	Host string
	// Dial connects to a host:port; nil: over TCP.
	Dial func(ctx context.Context, host string) (net.Conn, error)
	// Encrypt encrypts a connection to a host:port that was just opened; nil: it stays as it
	// is. What others open was encrypted, if at all, before Serve got it.
	Encrypt func(ctx context.Context, host string, conn net.Conn) (net.Conn, error)
	// Credentials are how members authenticate each other; nil: they do not, and accept
	// any peer that knows the ids of set and member.
	Credentials credentials.TransportCredentials
	// About returns for which set the process was started, and whether it has data; nil
	// if that is not known.
	About func() (set string, hasData bool)
	// Health returns the health of the process's member; nil if that is not known.
	Health func() Health
	// Changed is called when a snapshot begins to arrive, and when that ends; nil
	// for nobody.
	Changed func()
	Logger  *slog.Logger // nil: discard
}

// Network connects the members of a process with those of others: by gRPC, with one
// stream of frames to each host and one for each snapshot.
type Network struct {
	opts   NetworkOptions
	server *grpc.Server
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	members map[Number]*Replica
	links   map[string]*link
	// hosts are the hosts of members that a configuration does not name yet, as they
	// reported them.
	hosts map[uint64]string
	// receiving are the snapshots in progress.
	receiving map[Number]*Progress
	// backoffs are how long members were left alone that no snapshot could be sent to.
	backoffs map[uint64]time.Duration
	pace     pace
	refusals refusals
	// denials are those of other processes: they let this one not in.
	denials     refusals
	credentials loggedCredentials
	// silent are the connections on which no member has sent anything, by address.
	silent sync.Map
}

// NewNetwork makes a network without members or listeners.
func NewNetwork(o NetworkOptions) *Network {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Dial == nil {
		var d net.Dialer
		o.Dial = func(ctx context.Context, host string) (net.Conn, error) { return d.DialContext(ctx, "tcp", host) }
	}
	n := &Network{opts: o, members: map[Number]*Replica{}, links: map[string]*link{}, hosts: map[uint64]string{}, receiving: map[Number]*Progress{}, backoffs: map[uint64]time.Duration{}}
	n.credentials = loggedCredentials{o.Credentials, n}
	if o.Credentials == nil {
		n.credentials.TransportCredentials = keyless{insecure.NewCredentials(), n}
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.server = grpc.NewServer(
		grpc.Creds(n.credentials),
		grpc.StreamInterceptor(n.refusing),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.ForceServerCodecV2(rawCodec{}),
		grpc.MaxRecvMsgSize(maxFrameBytes), grpc.MaxConcurrentStreams(maxPeerStreams),
		grpc.StaticStreamWindowSize(peerWindow), grpc.StaticConnWindowSize(peerWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepalives / 2, PermitWithoutStream: true}),
	)
	n.server.RegisterService(&peerService, n)
	return n
}

// Serve accepts connections from other members on a listener, until Close.
func (n *Network) Serve(l net.Listener) error {
	if err := n.server.Serve(listener{l, n}); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Close ends all connections. The members have been stopped before.
func (n *Network) Close() {
	n.cancel()
	n.server.Stop()
	n.work.Wait()
}

func (n *Network) add(m *Replica) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.members[m.store.opts.Group] = m
}

func (n *Network) remove(m *Replica) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.members, m.store.opts.Group)
}

// rawCodec passes messages on as bytes.
type rawCodec struct{}

func (rawCodec) Name() string { return "mayfly" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("a message of type %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	p, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("a message of type %T", v)
	}
	*p = data.Materialize()
	return nil
}

// peerService is the service that a member offers to others.
var peerService = grpc.ServiceDesc{
	ServiceName: "mayfly.Replication",
	HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{
		{StreamName: "Frames", ClientStreams: true, ServerStreams: true, Handler: func(srv any, s grpc.ServerStream) error {
			return srv.(*Network).receiveFrames(s)
		}},
		{StreamName: "Snapshot", ClientStreams: true, ServerStreams: true, Handler: func(srv any, s grpc.ServerStream) error {
			return srv.(*Network).receiveSnapshot(s)
		}},
		{StreamName: "Identify", ClientStreams: true, ServerStreams: true, Handler: func(srv any, s grpc.ServerStream) error {
			return srv.(*Network).serveIdentity(s)
		}},
		{StreamName: "Health", ClientStreams: true, ServerStreams: true, Handler: func(srv any, s grpc.ServerStream) error {
			return srv.(*Network).serveHealth(s)
		}},
	},
}

// Places in peerService.
const (
	identifyStream = 2
	healthStream   = 3
)

// receiveFrames serves one stream of another process.
func (n *Network) receiveFrames(s grpc.ServerStream) error {
	known := uint64(0)
	for {
		var b []byte
		if err := s.RecvMsg(&b); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		f, err := decodeFrame(b)
		if err != nil {
			return status.Error(codes.InvalidArgument, err.Error())
		}
		m, err := n.admit(f)
		if err != nil {
			if status.Code(err) == codes.PermissionDenied {
				s.SetTrailer(metadata.Pairs(removedHeader, strconv.FormatUint(f.From, 16)))
			}
			return err
		}
		if f.Message != nil && f.Message.GetType() == raftpb.MsgSnap {
			return status.Error(codes.InvalidArgument, "a snapshot needs a separate stream")
		}
		if f.From != known {
			known = f.From
			n.know(known, s.Context())
		}
		// A full queue loses the frame: raft sends again.
		m.tryPost(func(g *Group) { g.Step(f.From, f.Message, f.Report) })
	}
}

// admit finds the member that a frame is for. Errors: for strangers, other sets,
// wrong members, and members that were removed.
func (n *Network) admit(f *Frame) (*Replica, error) {
	n.mu.Lock()
	m := n.members[f.Group]
	n.mu.Unlock()
	if m == nil {
		return nil, status.Errorf(codes.NotFound, "this host has no member of group %d", f.Group)
	}
	s := m.State()
	switch {
	case f.To != s.ID:
		return nil, status.Errorf(codes.FailedPrecondition, "the member here is %x, not %x: it has another data directory", s.ID, f.To)
	case s.Config == nil:
		return m, nil // empty: anyone who knows its id may add it to a set
	case f.Set == [12]byte{} && s.Config.Member(f.From) != nil:
		return m, nil // one that was empty does not know its set yet
	case f.Set != s.Config.ID:
		return nil, status.Error(codes.FailedPrecondition, "the member here belongs to another replica set")
	}
	for _, id := range s.Config.Removed {
		if id == f.From {
			return nil, status.Errorf(codes.PermissionDenied, "the member %x was removed from the replica set", id)
		}
	}
	return m, nil
}

// know notes the host of a member that sends: an empty one has no configuration that
// names it.
func (n *Network) know(id uint64, ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	if host := md.Get(hostHeader); len(host) == 1 {
		n.mu.Lock()
		defer n.mu.Unlock()
		if _, ok := n.hosts[id]; ok || len(n.hosts) < maxKnownHosts {
			n.hosts[id] = host[0]
		}
	}
}

// hostOf returns the host of a member; "" if it is not known.
func (n *Network) hostOf(m *Replica, id uint64) string {
	if dst := m.g.state.config.Member(id); dst != nil {
		return dst.Host
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hosts[id]
}

// frame puts a message into an envelope.
func (m *Replica) frame(to uint64, msg *raftpb.Message, r Report) *Frame {
	f := &Frame{Group: m.store.opts.Group, From: m.g.ID, To: to, Report: r, Message: msg}
	if c := m.g.state.config; c != nil {
		f.Set = c.ID
	}
	return f
}

// send queues a message. It is called on the member's goroutine.
func (n *Network) send(m *Replica, to uint64, msg *raftpb.Message, r Report) {
	host := n.hostOf(m, to)
	if host == "" {
		return // not in this configuration: its host is not known
	}
	b, err := m.frame(to, msg, r).encode()
	if err != nil {
		n.opts.Logger.Error("replication: cannot send a message", "error", err)
		return
	}
	if !n.link(host).put(queued{m, to, b}) {
		m.tryPost(func(g *Group) { g.ReportUnreachable(to) })
	}
}

// link finds or starts the link to a host.
func (n *Network) link(host string) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[host]
	if l == nil {
		l = &link{n: n, host: host, queue: make(chan queued, maxLinkFrames)}
		n.links[host] = l
		n.work.Add(1)
		go l.run()
	}
	return l
}

// dial opens a connection to a host.
func (n *Network) dial(host string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+host,
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: linkBackoff, Multiplier: 2, Jitter: 0.2, MaxDelay: maxDialPause}, MinConnectTimeout: handshakeTimeout}),
		grpc.WithTransportCredentials(n.credentials),
		grpc.WithContextDialer(func(ctx context.Context, host string) (net.Conn, error) {
			c, err := n.opts.Dial(ctx, host)
			if errors.Is(err, syscall.ECONNREFUSED) {
				n.gone(host)
			}
			return c, err
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepalives, Timeout: keepalives, PermitWithoutStream: true}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallSendMsgSize(maxFrameBytes), grpc.MaxCallRecvMsgSize(maxFrameBytes)),
		grpc.WithStaticStreamWindowSize(peerWindow), grpc.WithStaticConnWindowSize(peerWindow),
	)
}

// link sends to one host: it is a queue, and the goroutine that empties it.
type link struct {
	n     *Network
	host  string
	queue chan queued

	mu    sync.Mutex
	bytes int
}

// queued is a frame on its way.
type queued struct {
	m    *Replica
	to   uint64
	data []byte
}

// put queues a frame; false if the queue is full.
func (l *link) put(q queued) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes > 0 && l.bytes+len(q.data) > maxLinkBytes {
		return false
	}
	select {
	case l.queue <- q:
		l.bytes += len(q.data)
		return true
	default:
		return false
	}
}

func (l *link) took(q queued) {
	l.mu.Lock()
	l.bytes -= len(q.data)
	l.mu.Unlock()
}

// run sends, and after a failure reports it to those who had frames in the
// queue.
func (l *link) run() {
	defer l.n.work.Done()
	for l.n.ctx.Err() == nil {
		opened, err := l.session()
		if l.n.ctx.Err() != nil {
			return
		}
		l.n.opts.Logger.Debug("replication: cannot reach a member", "host", l.host, "error", err)
		l.lost()
		if opened {
			continue // the next attempt shows whether the process has ended
		}
		select {
		case <-time.After(linkBackoff):
		case <-l.n.ctx.Done():
		}
	}
}

// session sends what is queued over one stream, until that breaks. opened says that
// there was a stream.
func (l *link) session() (opened bool, err error) {
	conn, err := l.n.dial(l.host)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancelCause(l.n.ctx)
	defer cancel(nil)
	s, err := conn.NewStream(metadata.AppendToOutgoingContext(ctx, hostHeader, l.n.opts.Host), &peerService.Streams[0], "/mayfly.Replication/Frames")
	if err != nil {
		return false, err
	}
	go func() { // the peer sends nothing but the end of the stream
		var b []byte
		if err := s.RecvMsg(&b); err != nil {
			l.n.hearRemoval(s.Trailer())
			cancel(err)
		}
	}()
	for {
		select {
		case q := <-l.queue:
			l.took(q)
			if err := s.SendMsg(q.data); err != nil {
				q.unreachable()
				return true, err
			}
		case <-s.Context().Done():
			return true, context.Cause(ctx)
		}
	}
}

// gone is called where a host refuses connections: the process has ended.
func (n *Network) gone(host string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.members {
		m.tryPost(func(g *Group) {
			if lead := g.state.config.Member(g.lead); lead != nil && lead.Host == host {
				g.LeaderGone()
			}
		})
	}
}

// hearRemoval reads in the trailer of a stream whether its member was removed from the
// set.
func (n *Network) hearRemoval(trailer metadata.MD) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, text := range trailer.Get(removedHeader) {
		id, err := strconv.ParseUint(text, 16, 64)
		if err != nil {
			continue
		}
		for _, m := range n.members {
			m.tryPost(func(g *Group) { g.removed = g.removed || g.ID == id })
		}
	}
}

// lost drops what is queued.
func (l *link) lost() {
	told := map[uint64]bool{}
	for {
		select {
		case q := <-l.queue:
			l.took(q)
			if !told[q.to] {
				told[q.to] = true
				q.unreachable()
			}
		default:
			return
		}
	}
}

func (q queued) unreachable() { q.m.tryPost(func(g *Group) { g.ReportUnreachable(q.to) }) }
