package repl

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// crashed is the panic that ends a member of the simulation in the middle of its work.
type crashed struct{}

// content is what a disk of the model holds.
type content struct {
	hard    *raftpb.HardState
	base    Position
	entries []*raftpb.Entry // from base.Index+1 on
	at      Position
	state   []byte
	data    map[int][]byte // the machine's
	// parts are those of a chain that has no last entry yet, by their indexes; partsTerm is
	// the term of the newest.
	parts     map[uint64][]byte
	partsTerm uint64
}

func (c *content) clone() *content {
	d := *c
	d.entries, d.data, d.parts = slices.Clone(c.entries), maps.Clone(c.data), maps.Clone(c.parts)
	return &d
}

func (c *content) append(hard *raftpb.HardState, entries []*raftpb.Entry) {
	if hard != nil {
		c.hard = hard
	}
	if len(entries) > 0 {
		keep := entries[0].GetIndex() - c.base.Index - 1
		c.entries = append(slices.Clip(c.entries[:keep]), entries...)
	}
}

// disk is a model of a member's disk: Log and Machine on one journal. What was not
// synced is lost at a crash, but for a prefix.
type disk struct {
	durable, live *content
	pending       []func(*content)
	// crashIn is after how many further operations the process dies; negative: never.
	crashIn int
	// syncs says which appends wait for the disk; all, unless a test plants a bug.
	lies     bool // a test has planted one
	syncs    func(hard *raftpb.HardState, entries []*raftpb.Entry) bool
	incoming *content
	twin     *twin // a real store beside the model, or nil
}

func newDisk() *disk {
	return &disk{durable: &content{data: map[int][]byte{}}, live: &content{data: map[int][]byte{}}, crashIn: -1,
		syncs: func(*raftpb.HardState, []*raftpb.Entry) bool { return true }}
}

// point is a moment at which the process may die.
func (d *disk) point() {
	if d.crashIn == 0 {
		panic(crashed{})
	}
	d.crashIn--
}

func (d *disk) do(op func(*content)) {
	op(d.live)
	d.pending = append(d.pending, op)
	d.point()
}

func (d *disk) sync() {
	for _, op := range d.pending {
		op(d.durable)
	}
	d.pending = nil
	d.point()
}

// crash leaves what was synced and a prefix of the rest, with a twin none of it.
func (d *disk) crash(rng *rand.Rand) (err error) {
	if keep := rng.IntN(len(d.pending) + 1); d.twin == nil {
		for _, op := range d.pending[:keep] {
			op(d.durable)
		}
	}
	d.pending, d.live, d.crashIn = nil, d.durable.clone(), -1
	if d.twin != nil {
		if d.twin, err = d.twin.crash(); err == nil {
			err = d.twin.same(d.live)
		}
	}
	return err
}

func (d *disk) HardState() *raftpb.HardState { return d.live.hard }
func (d *disk) Base() Position               { return d.live.base }
func (d *disk) First() uint64                { return d.live.base.Index + 1 }
func (d *disk) Last() uint64                 { return d.live.base.Index + uint64(len(d.live.entries)) }

func (d *disk) Term(i uint64) (uint64, error) {
	switch {
	case i == d.live.base.Index:
		return d.live.base.Term, nil
	case i < d.live.base.Index:
		return 0, raft.ErrCompacted
	case i > d.Last():
		return 0, raft.ErrUnavailable
	}
	return d.live.entries[i-d.First()].GetTerm(), nil
}

func (d *disk) Entries(lo, hi, maxBytes uint64) ([]*raftpb.Entry, error) {
	switch {
	case lo < d.First():
		return nil, raft.ErrCompacted
	case hi > d.Last()+1:
		return nil, raft.ErrUnavailable
	}
	out := slices.Clone(d.live.entries[lo-d.First() : hi-d.First()])
	size := uint64(0)
	for i, e := range out {
		if size += uint64(len(e.GetData())); i > 0 && size > maxBytes {
			return out[:i], nil
		}
	}
	return out, nil
}

func (d *disk) Append(hard *raftpb.HardState, entries []*raftpb.Entry, sync bool) error {
	if len(entries) > 0 && entries[0].GetIndex() > d.Last()+1 {
		return fmt.Errorf("entries from %d leave a hole after %d", entries[0].GetIndex(), d.Last())
	}
	d.do(func(c *content) { c.append(hard, entries) })
	if d.twin != nil {
		if err := d.twin.store.Append(hard, entries, sync); err != nil {
			return err
		}
	}
	if sync && d.syncs(hard, entries) {
		d.sync()
	}
	return nil
}

func (d *disk) Truncate(index uint64) error {
	if index > d.durable.at.Index {
		if d.lies {
			return nil
		}
		return fmt.Errorf("the log is truncated at %d, past what is applied durably, %d", index, d.durable.at.Index)
	}
	if index <= d.live.base.Index {
		return nil
	}
	base, err := position(d, index)
	if err != nil {
		return err
	}
	d.do(func(c *content) {
		c.entries = slices.Clone(c.entries[index-c.base.Index:])
		c.base = base
	})
	if d.twin != nil {
		return d.twin.store.Truncate(index)
	}
	return nil
}

func (d *disk) Found(at Position, hard *raftpb.HardState, state []byte) error {
	d.do(func(c *content) { c.base, c.hard, c.entries, c.at, c.state = at, hard, nil, at, state })
	if d.twin != nil {
		if err := d.twin.store.Found(at, hard, state); err != nil {
			return err
		}
	}
	d.sync()
	return nil
}

func (d *disk) Applied() (uint64, []byte, error) { return d.live.at.Index, d.live.state, nil }

// Apply takes payloads of key and value.
func (d *disk) Apply(run []Change) error {
	for i := range run {
		if i > 0 && run[i].State != nil || d.live.at.Index != 0 && run[i].At.Index != d.live.at.Index+1+uint64(i) {
			return fmt.Errorf("entry %d is applied after %d, as the %dth of %d", run[i].At.Index, d.live.at.Index, i, len(run))
		}
	}
	if run[0].Chain != nil {
		last, err := decodeChain(run[0].Chain)
		if err != nil {
			return err
		}
		for _, i := range last.parts {
			if d.live.parts[i] == nil {
				return fmt.Errorf("the chain that ends with entry %d has no part %d", run[0].At.Index, i)
			}
		}
	}
	run = slices.Clone(run)
	for i := range run {
		run[i].Own = nil // the store reads all from the entries
	}
	d.do(func(c *content) { c.apply(run) })
	if d.twin != nil {
		return d.twin.store.Apply(run)
	}
	return nil
}

// apply makes the changes of entries.
func (c *content) apply(run []Change) {
	if last := run[len(run)-1]; last.Part == nil && last.Chain == nil && last.State == nil && c.partsTerm < last.At.Term {
		c.parts = nil
	}
	for _, ch := range run {
		c.at = ch.At
		payload := ch.Payload
		switch {
		case ch.State != nil:
			c.state = ch.State
		case ch.Part != nil:
			number, part, _ := cutPart(ch.Part)
			if number == 0 || c.parts == nil {
				c.parts = map[uint64][]byte{}
			}
			c.parts[ch.At.Index], c.partsTerm = part, ch.At.Term
		case ch.Chain != nil:
			last, _ := decodeChain(ch.Chain)
			for _, i := range last.parts {
				payload = append(payload, c.parts[i]...)
			}
			c.parts = nil
		}
		for _, w := range decodeWrites(payload) {
			c.data[w.key] = w.value
		}
	}
}

func (d *disk) Install(base Position, hard *raftpb.HardState) error {
	in := d.incoming
	if in == nil || in.at.Index != base.Index {
		return fmt.Errorf("the snapshot of %d is not the one that was received", base.Index)
	}
	d.incoming = nil
	c := in.clone()
	c.base, c.entries, c.hard = c.at, nil, hard
	d.point() // nothing has happened
	if d.twin != nil {
		if err := d.twin.store.Install(base, hard); err != nil {
			return err
		}
	}
	d.pending = nil
	d.durable, d.live = c, c.clone()
	d.point() // all has
	return nil
}

// write is one key's new value.
type write struct {
	key   int
	value []byte
}

func encodeWrites(ws []write) (b []byte) {
	for _, w := range ws {
		b = appendBytes(binary.AppendUvarint(b, uint64(w.key)), w.value)
	}
	return b
}

func decodeWrites(b []byte) (ws []write) {
	for len(b) > 0 {
		k, n := binary.Uvarint(b)
		v, rest, ok := cutBytes(b[n:])
		if !ok {
			panic("a payload that nobody has made")
		}
		ws = append(ws, write{int(k), v})
		b = rest
	}
	return ws
}

func encodeInts(list []int) (b []byte) {
	for _, v := range list {
		b = binary.AppendVarint(b, int64(v))
	}
	return b
}

func decodeInts(b []byte) (list []int) {
	for len(b) > 0 {
		v, n := binary.Varint(b)
		list = append(list, int(v))
		b = b[n:]
	}
	return list
}
