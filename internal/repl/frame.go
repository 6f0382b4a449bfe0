package repl

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Frame is what members send each other: set, group, sender and receiver, a report, and
// possibly a raft message.
type Frame struct {
	Set      [12]byte // Config.ID
	Group    Number
	From, To uint64 // raft ids
	Report   Report
	Message  *raftpb.Message // nil: the report alone
}

const (
	frameVersion = 1
	// frameHead is the length of a frame without its message: version, set, group,
	// from, to, position, time, flags.
	frameHead            = 1 + 12 + 4 + 8 + 8 + positionLen + 8 + 1
	flagFrozen, flagAsks = 1, 2
	// maxFrameBytes bounds a frame: a large entry has tens of MB (rule 23).
	maxFrameBytes = 128 << 20
)

var (
	errFrame  = errors.New("a frame that this version does not know")
	errSilent = errors.New("the connection ended without a frame of a member")
)

// encode returns the frame's bytes. Integers are little-endian.
func (f *Frame) encode() ([]byte, error) {
	size := 0
	if f.Message != nil {
		size = proto.Size(f.Message)
	}
	if size+frameHead > maxFrameBytes {
		return nil, fmt.Errorf("a message of %d bytes is too large for a frame", size)
	}
	b := make([]byte, 0, frameHead+size)
	b = append(b, frameVersion)
	b = append(b, f.Set[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(f.Group))
	b = binary.LittleEndian.AppendUint64(b, f.From)
	b = binary.LittleEndian.AppendUint64(b, f.To)
	b = appendPosition(b, f.Report.Applied)
	b = binary.LittleEndian.AppendUint64(b, uint64(f.Report.Wanted))
	flags := byte(0)
	if f.Report.Frozen {
		flags |= flagFrozen
	}
	if f.Report.Asks {
		flags |= flagAsks
	}
	b = append(b, flags)
	if f.Message == nil {
		return b, nil
	}
	return proto.MarshalOptions{}.MarshalAppend(b, f.Message)
}

// decodeFrame reads a frame. Its input may come from strangers.
func decodeFrame(b []byte) (*Frame, error) {
	if len(b) < frameHead || b[0] != frameVersion {
		return nil, errFrame
	}
	f := &Frame{Group: Number(binary.LittleEndian.Uint32(b[13:])), From: binary.LittleEndian.Uint64(b[17:]), To: binary.LittleEndian.Uint64(b[25:])}
	copy(f.Set[:], b[1:])
	f.Report.Applied, b, _ = cutPosition(b[33:])
	f.Report.Wanted = Timestamp(binary.LittleEndian.Uint64(b))
	f.Report.Frozen, f.Report.Asks = b[8]&flagFrozen != 0, b[8]&flagAsks != 0
	if b = b[9:]; len(b) == 0 {
		return f, nil
	}
	if err := checkWire(b); err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	f.Message = &raftpb.Message{}
	if err := proto.Unmarshal(b, f.Message); err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	if f.Message.GetFrom() != f.From || f.Message.GetTo() != f.To {
		return nil, fmt.Errorf("%w: its message has another sender or receiver", errFrame)
	}
	return f, nil
}
