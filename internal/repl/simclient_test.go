package repl

import (
	"encoding/binary"
	"flag"

	"github.com/mayflydb/mayfly/internal/catalog/pending"
	"github.com/mayflydb/mayfly/internal/sim"
)

var (
	simSeeds = flag.Int("seeds", 150, "how many seeds the simulation runs")
	simFirst = flag.Int("first-seed", 1, "the first seed of the simulation")
)

// Keys below listKeys are registers, the others lists.
const (
	simRegisters = 4
	listKeys     = 100
	simLists     = 4
)

// client does one thing after the other until a time.
func (w *world) client(c int, until int64) {
	if w.now >= until {
		return
	}
	next := func() { w.at(w.between(ms, 80*ms), func() { w.client(c, until) }) }
	p := w.primary()
	if p == nil {
		w.at(100*ms, func() { w.client(c, until) })
		return
	}
	switch w.rng.IntN(6) {
	case 0:
		w.readRegister(p, c, next)
	case 1, 2:
		w.writeRegister(p, c, next)
	case 3:
		w.readLists(p, next)
	default:
		w.appendLists(p, next)
	}
}

// once lets the first of two answers through: a client gives up after a while.
func (w *world) once(timeout int64, f func(err error)) func(err error) {
	over := false
	answer := func(err error) {
		if !over {
			over = true
			f(err)
		}
	}
	w.at(timeout, func() { answer(ErrSteppedDown) })
	return answer
}

func (w *world) readRegister(p *host, c int, next func()) {
	op := sim.RegisterOp{Client: c, Key: w.rng.IntN(simRegisters), Kind: sim.Read, Call: w.now}
	life := p.life
	answer := w.once(3*sec, func(error) { next() })
	p.do(func() {
		p.g.ReadIndex(func(err error) {
			if err == nil && p.life == life {
				op.Value, op.Return = register(p, op.Key), w.now
				w.registers = append(w.registers, op)
			}
			answer(err)
		})
	})
}

func register(p *host, key int) int { return value(decodeInts(p.disk.live.data[key])) }

// value is what a register has.
func value(v []int) int {
	if len(v) > 0 {
		return v[0]
	}
	return 0
}

// lock takes the locks of keys, all or none.
func (h *host) lock(keys []int) bool {
	for _, k := range keys {
		if h.locks[k] {
			return false
		}
	}
	for _, k := range keys {
		h.locks[k] = true
	}
	return true
}

func (h *host) unlock(life int, keys []int) {
	if h.life == life {
		for _, k := range keys {
			delete(h.locks, k)
		}
	}
}

// values are what a write reads under its locks: each key in the newest version that is
// pending, or as it is stored. False where a version may not be read.
func (h *host) values(keys []int, ev Evaluation) (map[int][]int, bool) {
	all := map[int][]int{}
	for _, k := range keys {
		key := []byte{byte(k)}
		newest := h.pending.Newest(key)
		if newest == nil {
			all[k] = decodeInts(h.disk.live.data[k])
			continue
		}
		at := pending.Evaluation{Term: ev.term, Epoch: ev.epoch}
		if h.careless {
			at = newest.At()
		}
		v, ok := h.pending.Read(key, at)
		if !ok {
			return nil, false
		}
		h.w.stats.hot++
		all[k] = decodeInts(v.Doc)
	}
	return all, true
}

// propose evaluates a write under its locks and proposes it some time later. The locks
// are handed over when its place is decided. answer hears nil, an error after which it
// may have happened (isUnknown), or another one.
func (w *world) propose(p *host, keys []int, evaluate func(map[int][]int) []write, answer func(error)) {
	life := p.life
	if !p.lock(keys) {
		answer(errBusy)
		return
	}
	p.do(func() {
		ev, err := p.g.Evaluate()
		values, ok := map[int][]int(nil), false
		if err == nil {
			if values, ok = p.values(keys, ev); !ok {
				err = errBusy
			}
		}
		if err != nil {
			p.unlock(life, keys)
			answer(err)
			return
		}
		writes := evaluate(values)
		delay := w.between(0, 5*ms)
		if w.chance(10) {
			delay = w.between(0, 3*sec)
		}
		w.at(delay, func() {
			if p.life != life || p.g == nil {
				answer(ErrDropped)
				return
			}
			if len(writes) > 0 && !p.chaining && w.chance(20) {
				w.orderChain(p, keys, ev, writes, answer)
			} else {
				w.order(p, keys, ev, writes, entry{kind: kindEffect, term: ev.term, payload: encodeWrites(writes)}, answer)
			}
		})
	})
}

// orderChain makes a write a chain, as Member.commitChain does: a part when the one before
// is applied, and then the last entry.
func (w *world) orderChain(p *host, keys []int, ev Evaluation, writes []write, answer func(error)) {
	life, rest, c := p.life, encodeWrites(writes), chain{times: 1}
	p.chaining = true
	fail := func(err error) {
		w.stats.dropped++
		if p.life == life {
			p.chaining = false
		}
		p.unlock(life, keys)
		answer(err)
	}
	var next func()
	next = func() {
		if len(rest) == 0 {
			w.order(p, keys, ev, writes, entry{kind: kindLast, term: ev.term, payload: c.encode()}, func(err error) {
				if p.life == life {
					p.chaining = false
				}
				if err == nil {
					w.stats.chains++
				}
				answer(err)
			})
			return
		}
		n := w.rng.IntN(len(rest)) + 1
		payload := append(binary.AppendUvarint(nil, uint64(len(c.parts))), rest[:n]...)
		rest = rest[n:]
		if !w.put(p, &proposal{entry: entry{kind: kindPart, term: ev.term, payload: payload}, epoch: ev.epoch, done: func(at Position, err error) {
			if err != nil {
				fail(ErrDropped) // whatever becomes of the part
				return
			}
			c.parts = append(c.parts, at.Index)
			w.at(w.between(0, 200*ms), func() {
				if p.life == life && p.g != nil {
					next()
				} else {
					fail(ErrDropped)
				}
			})
		}}) {
			fail(ErrNotPrimary)
		}
	}
	next()
}

// put gives a proposal to the inbox of a member, which takes it soon; false if it is not primary.
func (w *world) put(p *host, x *proposal) bool {
	life := p.life
	if !p.inbox.put(x) {
		return false
	}
	w.at(w.between(0, 5*ms), func() {
		if p.life == life {
			p.do(func() {
				for _, q := range p.inbox.take() {
					p.g.enqueue(q)
				}
			})
		}
	})
	return true
}

// order gives the entry of a write to the inbox of a member: from then on others are evaluated
// on it.
func (w *world) order(p *host, keys []int, ev Evaluation, writes []write, e entry, answer func(error)) {
	life, table := p.life, p.pending
	changes := new(pending.Write)
	for _, c := range writes {
		changes.Put([]byte{byte(c.key)}, nil, c.value)
	}
	table.Add(changes, pending.Evaluation{Term: ev.term, Epoch: ev.epoch})
	done := func(at Position, err error) {
		switch {
		case err == nil:
			e.time = at.Time
			w.stats.acked++
			w.acked = append(w.acked, acked{at, hashEntry(at.Term, e.encode())})
			table.Resolve(changes, nil)
		case err == ErrDropped:
			w.stats.dropped++
		default:
			w.stats.unknown++
		}
		if err != nil { // who proposed it hears of it when it runs again
			w.at(w.between(0, sec), func() { table.Resolve(changes, err) })
		}
		answer(err)
	}
	if !w.put(p, &proposal{entry: e, epoch: ev.epoch, own: life, done: done, ordered: func() { p.unlock(life, keys) }}) {
		table.Resolve(changes, ErrNotPrimary)
		p.unlock(life, keys)
		answer(ErrNotPrimary)
	}
}

func (w *world) writeRegister(p *host, c int, next func()) {
	w.nextValue++
	op := sim.RegisterOp{Client: c, Key: w.rng.IntN(simRegisters), Kind: sim.Write, To: w.nextValue, Call: w.now}
	if w.chance(50) {
		op.Kind, op.From = sim.Swap, register(p, op.Key) // as it looks now
	}
	answer := w.once(6*sec, func(err error) {
		op.Return = w.now
		op.Unknown = isUnknown(err)
		if err == nil || op.Unknown {
			w.registers = append(w.registers, op)
		}
		next()
	})
	w.propose(p, []int{op.Key}, func(now map[int][]int) []write {
		if op.Kind == sim.Swap && value(now[op.Key]) != op.From {
			return nil // an entry without effect: the answer is linearizable all the same
		}
		op.Swapped = true
		return []write{{op.Key, encodeInts([]int{op.To})}}
	}, answer)
}

// readLists reads several lists in one state.
func (w *world) readLists(p *host, next func()) {
	txn := sim.ListTxn{Call: w.now}
	life := p.life
	answer := w.once(3*sec, func(error) { next() })
	p.do(func() {
		p.g.ReadIndex(func(err error) {
			if err == nil && p.life == life {
				for k := range simLists {
					txn.Ops = append(txn.Ops, sim.ListOp{Key: k, List: decodeInts(p.disk.live.data[listKeys+k])})
				}
				txn.Return = w.now
				w.lists = append(w.lists, txn)
			}
			answer(err)
		})
	})
}

// appendLists reads one list and appends to one or two.
func (w *world) appendLists(p *host, next func()) {
	txn := sim.ListTxn{Call: w.now}
	a, b := w.rng.IntN(simLists), w.rng.IntN(simLists)
	keys := []int{listKeys + a}
	if a != b {
		keys = append(keys, listKeys+b)
	}
	answer := w.once(6*sec, func(err error) {
		txn.Return = w.now
		switch {
		case isUnknown(err):
			txn.Outcome = sim.Unknown
		case err != nil:
			txn.Outcome = sim.Aborted
		}
		w.lists = append(w.lists, txn)
		next()
	})
	w.propose(p, keys, func(now map[int][]int) (ws []write) {
		for i, k := range keys {
			list := now[k]
			if i == 0 {
				txn.Ops = append(txn.Ops, sim.ListOp{Key: k - listKeys, List: list})
			}
			w.nextValue++
			txn.Ops = append(txn.Ops, sim.ListOp{Key: k - listKeys, Append: true, Value: w.nextValue})
			ws = append(ws, write{k, encodeInts(append(list, w.nextValue))})
		}
		return ws
	}, answer)
}

// finalReads reads all once the set is at rest.
func (w *world) finalReads() {
	if w.failure != nil {
		return
	}
	p := w.primary()
	if p == nil {
		w.fail("no primary at the end")
		return
	}
	w.readLists(p, func() {})
	for k := range simRegisters {
		op := sim.RegisterOp{Client: 99, Key: k, Kind: sim.Read, Call: w.now}
		p.do(func() {
			p.g.ReadIndex(func(err error) {
				if err != nil {
					w.fail("final read: %v", err)
					return
				}
				op.Value, op.Return = register(p, k), w.now
				w.registers = append(w.registers, op)
			})
		})
	}
}
