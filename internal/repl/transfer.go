package repl

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mayflydb/mayfly/internal/storage"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The messages of a snapshot's stream: a byte for the kind, and what follows
// it. The receiver answers the first three kinds in turn.
const (
	sendHeader byte = 1 // total bytes, a frame with the message; answered by itself
	sendFile   byte = 2 // size, name; answered with how much of it is there, and the SHA-256 of that
	sendEnd    byte = 3 // nothing; answered once the snapshot is the receiver's
	sendData   byte = 4 // bytes of the file
	sendSum    byte = 5 // the SHA-256 of the whole file
	sendFrom   byte = 6 // the offset from which the data follow: what is there, or 0 if that is of another file
)

// chunkBytes is the size of a piece of a file.
const chunkBytes = 256 << 10

// Progress is how much of a snapshot has been received.
type Progress struct {
	Started time.Time
	Total   int64
	Done    atomic.Int64
	Kept    atomic.Int64 // of Done, what was there from an earlier attempt
}

// Receiving returns the progress of the snapshot that a group's member is receiving;
// nil for none.
func (n *Network) Receiving(group Number) *Progress {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.receiving[group]
}

// sendSnapshot sends the member's data to another one, and reports how that ended. It
// is called on the member's goroutine, which does not wait for it.
func (n *Network) sendSnapshot(m *Replica, msg *raftpb.Message) {
	to := msg.GetTo()
	host := n.hostOf(m, to)
	below := m.g.applied.Index
	frame, err := m.frame(to, msg, m.g.report()).encode()
	m.sending++
	n.work.Add(1)
	go func() {
		defer n.work.Done()
		fs := m.store.opts.FS
		dir := fs.PathJoin(m.store.opts.Dir, fmt.Sprintf("%s%016x", outgoingPrefix, to))
		if err == nil {
			err = n.sendFiles(fs, dir, host, frame, func() error { return m.store.copyTo(n.ctx, dir, below) })
		}
		if err != nil {
			n.opts.Logger.Warn("replication: cannot send a snapshot", "member", to, "host", host, "error", err)
		}
		if err := fs.RemoveAll(dir); err != nil {
			n.opts.Logger.Warn("replication: cannot remove a snapshot that was sent", "directory", dir, "error", err)
		}
		n.backOff(to, err == nil)
		if e := m.post(n.ctx, func(g *Group) {
			m.sending--
			g.ReportSnapshot(to, err == nil)
		}); e != nil && n.ctx.Err() == nil {
			n.opts.Logger.Debug("replication: cannot report the end of a snapshot", "error", e)
		}
	}()
}

// Bounds of the pause after a failed snapshot, which doubles with each consecutive failure.
const (
	snapshotBackoff    = 500 * time.Millisecond
	maxSnapshotBackoff = 16 * time.Second
)

// backOff pauses after a failed snapshot.
func (n *Network) backOff(to uint64, ok bool) {
	n.mu.Lock()
	wait := n.backoffs[to]
	if ok {
		delete(n.backoffs, to)
	} else {
		n.backoffs[to] = min(max(2*wait, snapshotBackoff), maxSnapshotBackoff)
		wait = n.backoffs[to]
	}
	n.mu.Unlock()
	if ok {
		return
	}
	select {
	case <-time.After(wait):
	case <-n.ctx.Done():
	}
}

// sendFiles sends the files of a directory in one stream. make creates them, once a
// receiver has accepted.
func (n *Network) sendFiles(fs storage.FS, dir, host string, frame []byte, make func() error) error {
	conn, err := n.dial(host)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(n.ctx, hostHeader, n.opts.Host))
	defer cancel()
	s, err := conn.NewStream(ctx, &peerService.Streams[1], "/mayfly.Replication/Snapshot")
	if err != nil {
		return err
	}
	if err := make(); err != nil {
		return err
	}
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	slices.Sort(names)
	total := int64(0)
	for _, name := range names {
		info, err := fs.Stat(fs.PathJoin(dir, name))
		if err != nil {
			return err
		}
		total += info.Size()
	}
	out := &sender{s: s, pace: &n.pace}
	if _, err := out.ask(append(binary.LittleEndian.AppendUint64([]byte{sendHeader}, uint64(total)), frame...)); err != nil {
		return err
	}
	for _, name := range names {
		if err := out.file(fs, dir, name); err != nil {
			return err
		}
	}
	_, err = out.ask([]byte{sendEnd})
	return err
}

// sender is the sending side of a stream.
type sender struct {
	s    grpc.ClientStream
	pace *pace
}

// ask sends a message and waits for its answer.
func (o *sender) ask(b []byte) (answer []byte, err error) {
	if err := o.send(b); err != nil {
		return nil, err
	}
	return answer, o.s.RecvMsg(&answer)
}

// send sends a message. An error of the peer is the one that ended the stream.
func (o *sender) send(b []byte) error {
	err := o.s.SendMsg(b)
	if errors.Is(err, io.EOF) {
		var none []byte
		if e := o.s.RecvMsg(&none); e != nil {
			return e
		}
	}
	return err
}

// file sends the part of one file that the receiver lacks, and the checksum of the whole.
func (o *sender) file(fs storage.FS, dir, name string) error {
	f, err := fs.Open(fs.PathJoin(dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	answer, err := o.ask(append(binary.LittleEndian.AppendUint64([]byte{sendFile}, uint64(info.Size())), name...))
	if err != nil {
		return err
	}
	if len(answer) != 8+sha256.Size {
		return errFrame
	}
	sum, at := sha256.New(), int64(binary.LittleEndian.Uint64(answer))
	if at > info.Size() {
		return errFrame
	}
	if err := hashFile(f, at, sum); err != nil {
		return err
	}
	if string(sum.Sum(nil)) != string(answer[8:]) {
		sum.Reset()
		at = 0 // it has another file of this name
	}
	if err := o.send(binary.LittleEndian.AppendUint64([]byte{sendFrom}, uint64(at))); err != nil {
		return err
	}
	for at < info.Size() {
		// A message belongs to gRPC once it is sent.
		b := make([]byte, 1+min(chunkBytes, info.Size()-at))
		b[0] = sendData
		if _, err := f.ReadAt(b[1:], at); err != nil {
			return err
		}
		sum.Write(b[1:])
		if err := o.send(b); err != nil {
			return err
		}
		o.pace.wait(o.s.Context(), len(b))
		at += int64(len(b) - 1)
	}
	return o.send(sum.Sum([]byte{sendSum}))
}

// pace bounds how many bytes of snapshots a process sends in a second, to all members
// together.
type pace struct {
	rate atomic.Int64 // bytes a second; 0: no bound
	mu   sync.Mutex
	due  time.Time // when the bytes so far would have been sent at that rate
}

// wait waits if more was sent than the rate allows.
func (p *pace) wait(ctx context.Context, n int) {
	rate := p.rate.Load()
	if rate == 0 {
		return
	}
	p.mu.Lock()
	now := time.Now()
	if p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
	wait := p.due.Sub(now)
	p.mu.Unlock()
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

// receiveSnapshot serves one snapshot's stream.
func (n *Network) receiveSnapshot(s grpc.ServerStream) error {
	var b []byte
	if err := s.RecvMsg(&b); err != nil {
		return err
	}
	if len(b) < 9 || b[0] != sendHeader {
		return status.Error(codes.InvalidArgument, errFrame.Error())
	}
	f, err := decodeFrame(b[9:])
	if err != nil || f.Message.GetType() != raftpb.MsgSnap || f.Message.GetSnapshot() == nil {
		return status.Error(codes.InvalidArgument, errFrame.Error())
	}
	m, err := n.admit(f)
	if err != nil {
		return err
	}
	n.know(f.From, s.Context())
	p := &Progress{Started: time.Now(), Total: int64(binary.LittleEndian.Uint64(b[1:]))}
	n.mu.Lock()
	busy := n.receiving[f.Group] != nil
	if !busy {
		n.receiving[f.Group] = p
	}
	n.mu.Unlock()
	if busy {
		return status.Error(codes.ResourceExhausted, "another snapshot is being received")
	}
	n.opts.Changed()
	defer func() {
		n.mu.Lock()
		delete(n.receiving, f.Group)
		n.mu.Unlock()
		n.opts.Changed()
	}()
	r := &receiver{s: s, fs: m.store.opts.FS, dir: m.store.opts.FS.PathJoin(m.store.opts.Dir, incomingDir), progress: p, room: m.store.room}
	n.opts.Logger.Info("replication: receives the data of another member", "member", f.From, "bytes", p.Total)
	err = r.receive(b[:1])
	if err == nil {
		err = m.takeSnapshot(s.Context(), f)
	}
	if err != nil {
		n.opts.Logger.Error("replication: the data of another member were not received", "member", f.From, "bytes", p.Total, "received", p.Done.Load(), "kept", p.Kept.Load(), "error", err)
		return err
	}
	n.opts.Logger.Info("replication: the data of another member were received", "member", f.From, "bytes", p.Total, "kept", p.Kept.Load(), "milliseconds", time.Since(p.Started).Milliseconds())
	return s.SendMsg([]byte{sendEnd})
}

// takeSnapshot passes a received snapshot to raft with its own position, which may
// be later than that of the message.
func (m *Replica) takeSnapshot(ctx context.Context, f *Frame) error {
	meta, config, err := m.store.received()
	if err != nil {
		return err
	}
	if config == nil || config.ID != f.Set {
		return status.Error(codes.InvalidArgument, "the snapshot is of another replica set than its frame")
	}
	f.Message.Snapshot.Metadata = meta
	_, err = m.ask(ctx, func(g *Group, done func(Position, error)) {
		g.Step(f.From, f.Message, f.Report)
		// The round runs here, so that no other snapshot is received before it.
		if _, err := g.Round(); err != nil {
			m.failed = err
		}
		done(Position{}, m.failed)
	})
	return err
}

// receiver is the receiving side of a stream.
type receiver struct {
	s        grpc.ServerStream
	fs       storage.FS
	dir      string
	progress *Progress
	// room returns the free bytes of the disk, without those that the member's own
	// writes may need.
	room func() int64
}

// receive replies to the header, and receives the files.
func (r *receiver) receive(answer []byte) error {
	if err := r.fs.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	if err := r.makeRoom(); err != nil {
		return err
	}
	if err := r.s.SendMsg(answer); err != nil {
		return err
	}
	return errorOfDisk(r.files())
}

// makeRoom checks the room on the disk before anything is sent. It removes the files of
// an earlier attempt if the snapshot fits only without them.
func (r *receiver) makeRoom() error {
	list, err := r.fs.List(r.dir)
	if err != nil {
		return err
	}
	there := int64(0)
	for _, name := range list {
		info, err := r.fs.Stat(r.fs.PathJoin(r.dir, name))
		if err != nil {
			return err
		}
		there += info.Size()
	}
	if r.room() >= r.progress.Total-there {
		return nil
	}
	if there > 0 {
		if err := errors.Join(r.fs.RemoveAll(r.dir), r.fs.MkdirAll(r.dir, 0o755)); err != nil {
			return err
		}
		if r.room() >= r.progress.Total {
			return nil
		}
	}
	return r.noRoom()
}

// noRoom is the error if the disk has no room for the snapshot in addition to the
// member's own log and data.
func (r *receiver) noRoom() error {
	return status.Errorf(codes.ResourceExhausted, "not enough disk space in %s for the data of another member, %d bytes of %d have been received: free space, and it goes on", r.dir, r.progress.Done.Load(), r.progress.Total)
}

// errorOfDisk maps the error of a full disk.
func errorOfDisk(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return status.Errorf(codes.ResourceExhausted, "the disk filled up while the data of the set were received: %v", err)
	}
	return err
}

// files receives files into the directory until the end, and removes all others. It
// resumes files of an earlier attempt that have a common prefix.
func (r *receiver) files() error {
	var got []string
	for {
		var b []byte
		if err := r.s.RecvMsg(&b); err != nil {
			return err
		}
		switch {
		case len(b) == 1 && b[0] == sendEnd:
			return r.finish(got)
		case len(b) > 9 && b[0] == sendFile:
			name := string(b[9:])
			if strings.ContainsAny(name, `/\`) || strings.Trim(name, ".") == "" {
				return status.Errorf(codes.InvalidArgument, "a file cannot be named %q", name)
			}
			if err := r.file(name, int64(binary.LittleEndian.Uint64(b[1:]))); err != nil {
				return err
			}
			got = append(got, name)
		default:
			return status.Error(codes.InvalidArgument, errFrame.Error())
		}
	}
}

// file receives one file.
func (r *receiver) file(name string, size int64) error {
	path := r.fs.PathJoin(r.dir, name)
	f, at, err := r.open(path, size)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // the files that matter were synced
	sum := sha256.New()
	if err := hashFile(f, at, sum); err != nil {
		return err
	}
	if err := r.s.SendMsg(sum.Sum(binary.LittleEndian.AppendUint64(nil, uint64(at)))); err != nil {
		return err
	}
	var b []byte
	if err := r.s.RecvMsg(&b); err != nil {
		return err
	}
	if len(b) != 9 || b[0] != sendFrom {
		return status.Error(codes.InvalidArgument, errFrame.Error())
	}
	switch int64(binary.LittleEndian.Uint64(b[1:])) {
	case at:
	case 0: // the local file is another one
		sum.Reset()
		if err := errors.Join(f.Close(), r.fs.Remove(path)); err != nil {
			return err
		}
		if f, at, err = r.open(path, size); err != nil {
			return err
		}
	default:
		return status.Error(codes.InvalidArgument, errFrame.Error())
	}
	r.progress.Kept.Add(at)
	r.progress.Done.Add(at)
	if r.room() < size-at {
		return r.noRoom()
	}
	return r.data(f, path, at, size, sum)
}

// open opens a file that has some bytes from an earlier attempt.
func (r *receiver) open(path string, size int64) (f storage.File, at int64, err error) {
	if f, err = r.fs.OpenReadWrite(path, ""); err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() <= size {
		return f, info.Size(), nil
	}
	if err = errors.Join(err, f.Close(), r.fs.Remove(path)); err == nil {
		f, err = r.fs.OpenReadWrite(path, "")
	}
	return f, 0, err
}

// data receives the bytes of a file from an offset on.
func (r *receiver) data(f storage.File, path string, at, size int64, sum hash.Hash) error {
	for {
		var b []byte
		if err := r.s.RecvMsg(&b); err != nil {
			return err
		}
		switch {
		case len(b) > 1 && b[0] == sendData && at+int64(len(b)-1) <= size:
			if _, err := f.WriteAt(b[1:], at); err != nil {
				return err
			}
			sum.Write(b[1:])
			at += int64(len(b) - 1)
			r.progress.Done.Add(int64(len(b) - 1))
		case len(b) == 1+sha256.Size && b[0] == sendSum:
			if at != size || string(sum.Sum(nil)) != string(b[1:]) {
				return errors.Join(status.Errorf(codes.DataLoss, "file %s arrived damaged", path), r.fs.Remove(path))
			}
			return f.Sync()
		default:
			return status.Error(codes.InvalidArgument, errFrame.Error())
		}
	}
}

// hashFile hashes the first n bytes of a file.
func hashFile(f io.ReaderAt, n int64, sum hash.Hash) error {
	b := make([]byte, chunkBytes)
	for at := int64(0); at < n; at += int64(len(b)) {
		b = b[:min(int64(len(b)), n-at)]
		if _, err := f.ReadAt(b, at); err != nil {
			return err
		}
		sum.Write(b)
	}
	return nil
}

// finish removes all files that are not part of the snapshot, and makes the rest durable.
func (r *receiver) finish(got []string) error {
	list, err := r.fs.List(r.dir)
	if err != nil {
		return err
	}
	for _, name := range list {
		if !slices.Contains(got, name) {
			if err := r.fs.RemoveAll(r.fs.PathJoin(r.dir, name)); err != nil {
				return err
			}
		}
	}
	for _, path := range []string{r.dir, r.fs.PathDir(r.dir)} {
		d, err := r.fs.OpenDir(path)
		if err != nil {
			return err
		}
		if err := errors.Join(d.Sync(), d.Close()); err != nil {
			return err
		}
	}
	return nil
}
