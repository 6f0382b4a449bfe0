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
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/storage"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The messages of a snapshot's stream: a byte, and what it is followed by. The
// receiver answers the first three kinds in turn.
const (
	sendHeader byte = 1 // total bytes, a frame with the message; answered by itself
	sendFile   byte = 2 // size, name; answered with the offset from which it is wanted
	sendEnd    byte = 3 // nothing; answered once the snapshot is the receiver's
	sendData   byte = 4 // bytes of the file
	sendSum    byte = 5 // the SHA-256 of the whole file
)

// chunkBytes is the size of a piece of a file.
const chunkBytes = 256 << 10

// Progress is how much of a snapshot has been received.
type Progress struct {
	Started time.Time
	Total   int64
	Done    atomic.Int64 // what was there from an earlier attempt included
}

// Receiving returns the progress of the snapshot that a group's member is receiving;
// nil for none.
func (n *Network) Receiving(group Number) *Progress {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.receiving[group]
}

// sendSnapshot sends the member's data to another one, and reports how that ended. It
// is called on the member's goroutine, where nothing replaces the store.
func (n *Network) sendSnapshot(m *Replica, msg *raftpb.Message) {
	to := msg.GetTo()
	fs := m.store.opts.FS
	dir := fs.PathJoin(m.store.opts.Dir, fmt.Sprintf("%s%016x", outgoingPrefix, to))
	host := n.hostOf(m, to)
	err := fs.RemoveAll(dir)
	if err == nil {
		err = m.store.engine.Checkpoint(dir)
	}
	frame, frameErr := m.frame(to, msg, m.g.report()).encode()
	n.work.Add(1)
	go func() {
		defer n.work.Done()
		if err = errors.Join(err, frameErr); err == nil {
			err = n.sendFiles(fs, dir, host, frame)
		}
		if err != nil {
			n.opts.Logger.Warn("replication: a snapshot was not sent", "member", to, "host", host, "error", err)
		}
		if err := fs.RemoveAll(dir); err != nil {
			n.opts.Logger.Warn("replication: a snapshot that was sent is still there", "directory", dir, "error", err)
		}
		if e := m.post(n.ctx, func(g *Group) { g.ReportSnapshot(to, err == nil) }); e != nil && n.ctx.Err() == nil {
			n.opts.Logger.Debug("replication: the end of a snapshot was not reported", "error", e)
		}
	}()
}

// sendFiles sends the files of a directory in one stream.
func (n *Network) sendFiles(fs storage.FS, dir, host string, frame []byte) error {
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
	out := &sender{s: s, rate: n.opts.SnapshotRate, start: time.Now()}
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
	s     grpc.ClientStream
	rate  int64 // bytes a second; 0: no bound
	start time.Time
	sent  int64
}

// ask sends a message and waits for its answer.
func (o *sender) ask(b []byte) (answer []byte, err error) {
	if err := o.send(b); err != nil {
		return nil, err
	}
	return answer, o.s.RecvMsg(&answer)
}

// send sends a message. An error of the other side is what the stream ended with.
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

// file sends what the receiver lacks of one file, and the sum of all of it.
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
	if len(answer) != 8 {
		return errFrame
	}
	from := int64(binary.LittleEndian.Uint64(answer))
	sum := sha256.New()
	for at := int64(0); at < info.Size(); {
		// A message is gRPC's once it is sent.
		b := make([]byte, 1+min(chunkBytes, info.Size()-at))
		b[0] = sendData
		if at < from {
			b = b[:1+min(int64(len(b)-1), from-at)]
		}
		if _, err := f.ReadAt(b[1:], at); err != nil {
			return err
		}
		sum.Write(b[1:])
		if at >= from {
			if err := o.send(b); err != nil {
				return err
			}
			o.pace(len(b))
		}
		at += int64(len(b) - 1)
	}
	return o.send(sum.Sum([]byte{sendSum}))
}

// pace waits where more was sent than the rate allows.
func (o *sender) pace(n int) {
	if o.rate == 0 {
		return
	}
	o.sent += int64(n)
	due := time.Duration(float64(o.sent) / float64(o.rate) * float64(time.Second))
	select {
	case <-time.After(due - time.Since(o.start)):
	case <-o.s.Context().Done():
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
	if err := s.SendMsg(b[:1]); err != nil {
		return err
	}
	r := &receiver{s: s, fs: m.store.opts.FS, dir: m.store.opts.FS.PathJoin(m.store.opts.Dir, incomingDir), progress: p}
	if err := r.files(); err != nil {
		return err
	}
	if err := m.takeSnapshot(s.Context(), f); err != nil {
		return err
	}
	return s.SendMsg([]byte{sendEnd})
}

// takeSnapshot gives raft a snapshot that was received: its own place counts, as it
// may be a later one than that of the message.
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
		// The round is here, so that no other snapshot is received before it.
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
}

// files receives files into the directory until the end, and leaves there nothing
// else. Files of an earlier attempt are gone on with: the sum tells whether they are
// the same.
func (r *receiver) files() error {
	if err := r.fs.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
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
				return status.Errorf(codes.InvalidArgument, "a file named %q", name)
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
	f, err := r.fs.OpenReadWrite(path, "")
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	at, err := hashFile(f, sum)
	if err != nil {
		return err
	}
	if at > size {
		return errors.Join(r.fs.Remove(path), fmt.Errorf("file %s of an earlier attempt is another one", name))
	}
	r.progress.Done.Add(at)
	if err := r.s.SendMsg(binary.LittleEndian.AppendUint64(nil, uint64(at))); err != nil {
		return err
	}
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
				return errors.Join(status.Errorf(codes.DataLoss, "file %s arrived damaged", name), r.fs.Remove(path))
			}
			return f.Sync()
		default:
			return status.Error(codes.InvalidArgument, errFrame.Error())
		}
	}
}

// hashFile hashes what a file has, and returns its length.
func hashFile(f io.ReaderAt, sum hash.Hash) (at int64, err error) {
	b := make([]byte, chunkBytes)
	for {
		n, err := f.ReadAt(b, at)
		sum.Write(b[:n])
		at += int64(n)
		if errors.Is(err, io.EOF) || err == nil && n == 0 {
			return at, nil
		}
		if err != nil {
			return at, err
		}
	}
}

// finish removes what is no part of the snapshot, and makes the rest durable.
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
