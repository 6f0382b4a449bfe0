package wire

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"sync"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Compressor is a way to compress messages, by its number on the wire.
type Compressor uint8

// The compressors. None is ours and means that OP_COMPRESSED was not used;
// Noop wraps a message without making it smaller.
const (
	Noop   Compressor = 0
	Snappy Compressor = 1
	Zlib   Compressor = 2
	Zstd   Compressor = 3
	None   Compressor = 255
)

var compressorNames = map[string]Compressor{"noop": Noop, "snappy": Snappy, "zlib": Zlib, "zstd": Zstd}

// CompressorByName finds a compressor by the name it has in hello and in
// net.compression.compressors.
func CompressorByName(name string) (Compressor, bool) {
	c, ok := compressorNames[name]
	return c, ok
}

// Negotiate keeps of the names that a client offers in hello those that the
// server has enabled, in the client's order, each once.
func Negotiate(offered, enabled []string) []string {
	var both []string
	for _, name := range offered {
		if slices.Contains(enabled, name) && !slices.Contains(both, name) {
			both = append(both, name)
		}
	}
	return both
}

// compressedHead is the length in bytes of what stands between the header of
// an OP_COMPRESSED and its data: opcode and length of what is inside, and the
// compressor.
const compressedHead = 4 + 4 + 1

// Decompress opens an OP_COMPRESSED; any other frame it returns as it is, with
// None. The header of the result is the one that the message had before it was
// compressed.
func (f Frame) Decompress() (Frame, Compressor, error) {
	if f.OpCode() != OpCompressed {
		return f, None, nil
	}
	if len(f) < HeaderLen+compressedHead {
		return nil, None, closing(mongoerr.ProtocolError, "OP_COMPRESSED of %d bytes is incomplete", len(f))
	}
	b := f[HeaderLen:]
	op, n := OpCode(binary.LittleEndian.Uint32(b)), length(b[4:])
	c, data := Compressor(b[8]), b[compressedHead:]
	if op == OpCompressed {
		return nil, None, closing(mongoerr.ProtocolError, "OP_COMPRESSED inside OP_COMPRESSED")
	}
	if n < 0 || n > MaxMessageSize-HeaderLen {
		return nil, None, closing(mongoerr.BadValue, "Decompressed message would be larger than maximum message size")
	}
	plain := appendHeader(make(Frame, 0, HeaderLen), f.RequestID(), f.ResponseTo(), op)
	plain, err := decompress(plain, c, data, n)
	if err != nil {
		return nil, None, err
	}
	if len(plain) != HeaderLen+n {
		return nil, None, closing(mongoerr.BadValue, "Decompressing message returned %d bytes, its header says %d", len(plain)-HeaderLen, n)
	}
	return seal(plain, 0), c, nil
}

// decompress appends to dst what data holds: n bytes, if the header is right.
func decompress(dst Frame, c Compressor, data []byte, n int) (Frame, error) {
	head := len(dst)
	switch c {
	case Noop:
		return append(dst, data...), nil
	case Snappy:
		if m, err := snappy.DecodedLen(data); err != nil || m != n {
			return nil, closing(mongoerr.BadValue, "Could not decompress message: snappy length %d, its header says %d", m, n)
		}
		dst = slices.Grow(dst, n)[:head+n]
		if _, err := snappy.Decode(dst[head:], data); err != nil {
			return nil, undecompressable(err)
		}
		return dst, nil
	case Zlib:
		return inflate(dst, data, n)
	case Zstd:
		// Its memory is what the header says and no more: that much was reserved.
		out, err := zstdDecoder().DecodeAll(data, slices.Grow(dst, n)[:head:head+n])
		if err != nil {
			return nil, undecompressable(err)
		}
		return out, nil
	}
	return nil, closing(mongoerr.ProtocolError, "unknown compressor %d", c)
}

// maxGrowth is the memory that data is trusted to need when its header
// promises more: an honest message of documents seldom shrinks more than
// sixteenfold, and one that did costs a few reallocations.
func maxGrowth(data []byte) int { return 16*len(data) + 1<<10 }

func undecompressable(err error) error {
	return closing(mongoerr.BadValue, "Could not decompress message: %v", err)
}

// inflate reads at most one byte more than n, which is enough to find a
// message that lies about its length.
func inflate(dst Frame, data []byte, n int) (Frame, error) {
	z, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, undecompressable(err)
	}
	out := bytes.NewBuffer(slices.Grow(dst, min(n, maxGrowth(data))))
	if _, err := io.Copy(out, io.LimitReader(z, int64(n)+1)); err != nil {
		return nil, undecompressable(err)
	}
	return out.Bytes(), nil
}

// The zstd coder and decoder are made when the first message needs them. Both
// may be used from many goroutines at once.
var (
	zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxMessageSize), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(0))
		if err != nil {
			panic(err) // the options are constants
		}
		return d
	})
	zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // the options are constants
		}
		return e
	})
	zlibWriters = sync.Pool{New: func() any { return zlib.NewWriter(nil) }}
)

// appendCompressed appends f, wrapped in OP_COMPRESSED.
func appendCompressed(dst []byte, f Frame, c Compressor) []byte {
	start, data := len(dst), f[HeaderLen:]
	dst = appendHeader(dst, f.RequestID(), f.ResponseTo(), OpCompressed)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(f.OpCode()))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(data)))
	dst = append(dst, byte(c))
	switch c {
	case Snappy:
		at := len(dst)
		dst = slices.Grow(dst, snappy.MaxEncodedLen(len(data)))
		dst = dst[:at+len(snappy.Encode(dst[at:cap(dst)], data))]
	case Zlib:
		out := bytes.NewBuffer(dst)
		z := zlibWriters.Get().(*zlib.Writer)
		z.Reset(out)
		_, _ = z.Write(data) // a bytes.Buffer takes everything
		_ = z.Close()
		zlibWriters.Put(z)
		dst = out.Bytes()
	case Zstd:
		dst = zstdEncoder().EncodeAll(data, dst)
	default:
		dst = append(dst, data...)
	}
	return seal(dst, start)
}
