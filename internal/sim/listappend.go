package sim

import (
	"fmt"
	"slices"
	"strings"
)

// ListOp is one step of a transaction: it reads a list, or appends a value to it. No
// value is appended twice in a history.
type ListOp struct {
	Key    int
	Append bool
	Value  int   // that is appended
	List   []int // that was read; includes the transaction's own appends before it
}

// ListTxn is one transaction.
type ListTxn struct {
	Ops    []ListOp
	Call   int64
	Return int64
	// Outcome is what the client knows.
	Outcome Outcome
	// Stale says that it may have read an older state than that of its time: it has written
	// nothing, and nobody has promised it the newest.
	Stale bool
}

// Outcome is what a client knows of its transaction.
type Outcome uint8

// The outcomes.
const (
	Committed Outcome = iota
	Aborted
	Unknown // its reads are not looked at, its appends may be seen
)

// Anomaly is what CheckLists found, by Adya's names: G0 (a ring of writes), G1a (a
// value of an aborted transaction), G1b (a value between), G1c (a ring with what
// was read), G-single (a ring with one read of what was overwritten), G-nonadjacent (with
// several, no two of which follow each other), G2 (with several), lost (an acknowledged append in no list), order (reads of one list that
// no order explains).
type Anomaly struct {
	Name string
	Txns []int // by their place in the history
	Text string
}

func (a *Anomaly) Error() string {
	return fmt.Sprintf("%s: %s (transactions %v)", a.Name, a.Text, a.Txns)
}

// edge is why one transaction comes before another.
type edge uint8

const (
	realTime edge = 1 << iota // ended before the other began
	writeWrite
	writeRead
	readWrite // read what the other has overwritten
)

var edgeNames = []struct {
	e    edge
	name string
}{{writeWrite, "ww"}, {writeRead, "wr"}, {readWrite, "rw"}, {realTime, "rt"}}

func (e edge) String() string {
	var out []string
	for _, n := range edgeNames {
		if e&n.e != 0 {
			out = append(out, n.name)
		}
	}
	return strings.Join(out, "+")
}

// lists is a history while it is checked.
type lists struct {
	txns   []ListTxn
	writer map[int]int   // of a value
	order  map[int][]int // of a key: the longest list that was read
	edges  []map[int]edge
}

// CheckLists reports whether a history is strictly serializable as far as the lists that
// were read tell: nil, or the first anomaly. Every key should be read at the end.
func CheckLists(txns []ListTxn) *Anomaly { return check(txns, true) }

// CheckSnapshotLists is CheckLists for snapshot isolation, in which each transaction reads
// the state of its beginning: write skew is allowed, a ring in which two transactions in a row
// have read what the next one has overwritten.
func CheckSnapshotLists(txns []ListTxn) *Anomaly { return check(txns, false) }

func check(txns []ListTxn, serializable bool) *Anomaly {
	h := &lists{txns: txns, writer: map[int]int{}, order: map[int][]int{}}
	for i, t := range txns {
		for _, op := range t.Ops {
			if op.Append {
				h.writer[op.Value] = i
			}
		}
	}
	if a := h.findOrder(); a != nil {
		return a
	}
	if a := h.lost(); a != nil {
		return a
	}
	h.connect()
	return h.rings(serializable)
}

// eachRead calls f for each list that a committed transaction has read, without the
// values at its end that are the transaction's own.
func (h *lists) eachRead(f func(txn, key int, list []int) *Anomaly) *Anomaly {
	for i, t := range h.txns {
		if t.Outcome != Committed {
			continue
		}
		for _, op := range t.Ops {
			if op.Append {
				continue
			}
			list := op.List
			for n := len(list); n > 0; n-- {
				if w, ok := h.writer[list[n-1]]; !ok || w != i {
					break
				}
				list = list[:n-1]
			}
			if a := f(i, op.Key, list); a != nil {
				return a
			}
		}
	}
	return nil
}

// findOrder finds each list's order, and what no order explains.
func (h *lists) findOrder() *Anomaly {
	for _, t := range h.txns {
		for _, op := range t.Ops {
			if !op.Append && t.Outcome == Committed && len(op.List) > len(h.order[op.Key]) {
				h.order[op.Key] = op.List
			}
		}
	}
	for k, list := range h.order {
		seen := map[int]bool{}
		for _, v := range list {
			if seen[v] {
				return &Anomaly{"order", nil, fmt.Sprintf("list %d has the value %d twice: %v", k, v, list)}
			}
			seen[v] = true
		}
	}
	return h.eachRead(func(txn, key int, list []int) *Anomaly {
		longest := h.order[key]
		if !slices.Equal(list, longest[:min(len(list), len(longest))]) {
			return &Anomaly{"order", []int{txn}, fmt.Sprintf("list %d was read as %v and as %v", key, list, longest)}
		}
		for _, v := range list {
			w, ok := h.writer[v]
			if !ok || h.txns[w].Outcome == Aborted {
				return &Anomaly{"G1a", []int{txn, w}, fmt.Sprintf("list %d has %d, which nobody has committed", key, v)}
			}
		}
		if n := len(list); n > 0 {
			w := h.writer[list[n-1]]
			if last := h.lastAppend(w, key); last != list[n-1] {
				return &Anomaly{"G1b", []int{txn, w}, fmt.Sprintf("list %d was read between two values of one transaction: %v", key, list)}
			}
		}
		return nil
	})
}

func (h *lists) lastAppend(txn, key int) (last int) {
	for _, op := range h.txns[txn].Ops {
		if op.Append && op.Key == key {
			last = op.Value
		}
	}
	return last
}

// lost finds acknowledged values that a list read later does not have.
func (h *lists) lost() *Anomaly {
	return h.eachRead(func(reader, key int, list []int) *Anomaly {
		if h.txns[reader].Stale {
			return nil
		}
		for i, t := range h.txns {
			if t.Outcome != Committed || t.Return >= h.txns[reader].Call {
				continue
			}
			for _, op := range t.Ops {
				if op.Append && op.Key == key && !slices.Contains(list, op.Value) {
					return &Anomaly{"lost", []int{i, reader}, fmt.Sprintf("list %d has no %d, which was acknowledged before it was read: %v", key, op.Value, list)}
				}
			}
		}
		return nil
	})
}

// connect makes the graph.
func (h *lists) connect() {
	h.edges = make([]map[int]edge, len(h.txns))
	for i := range h.edges {
		h.edges[i] = map[int]edge{}
	}
	add := func(from, to int, e edge) {
		if from != to {
			h.edges[from][to] |= e
		}
	}
	for _, list := range h.order {
		for n := 1; n < len(list); n++ {
			add(h.writer[list[n-1]], h.writer[list[n]], writeWrite)
		}
	}
	_ = h.eachRead(func(txn, key int, list []int) *Anomaly {
		n := len(list)
		if n > 0 {
			add(h.writer[list[n-1]], txn, writeRead)
		}
		if longest := h.order[key]; n < len(longest) {
			add(txn, h.writer[longest[n]], readWrite)
		}
		return nil
	})
	for i, t := range h.txns {
		for j, u := range h.txns {
			if t.Outcome == Committed && t.Return < u.Call && !u.Stale {
				add(i, j, realTime)
			}
		}
	}
}

// rings looks for rings: the worst kind first.
func (h *lists) rings(serializable bool) *Anomaly {
	for _, kind := range []struct {
		name string
		with edge
	}{{"G0", writeWrite | realTime}, {"G1c", writeWrite | writeRead | realTime}} {
		for _, scc := range h.components(kind.with) {
			ring := h.path(scc[0], scc[0], kind.with)
			return &Anomaly{kind.name, ring, h.describe(ring, kind.with)}
		}
	}
	const all = writeWrite | writeRead | readWrite | realTime
	components := h.components(all)
	for _, scc := range components {
		for _, from := range scc { // one rw edge, and back without any
			for _, to := range sortedKeys(h.edges[from]) {
				if h.edges[from][to]&readWrite == 0 {
					continue
				}
				if ring := h.path(to, from, writeWrite|writeRead|realTime); ring != nil {
					ring = append([]int{from}, ring...)
					return &Anomaly{"G-single", ring, h.describe(ring, all)}
				}
			}
		}
	}
	if !serializable {
		return h.apart(components)
	}
	for _, scc := range components {
		ring := h.path(scc[0], scc[0], all)
		return &Anomaly{"G2", ring, h.describe(ring, all)}
	}
	return nil
}

// apart looks for rings in which no two reads of what was overwritten follow each other.
func (h *lists) apart(components [][]int) *Anomaly {
	for _, scc := range components {
		for _, from := range scc {
			for _, to := range sortedKeys(h.edges[from]) {
				if h.edges[from][to]&readWrite == 0 {
					continue
				}
				if ring := h.pathApart(to, from); ring != nil {
					ring = append([]int{from}, ring...)
					return &Anomaly{"G-nonadjacent", ring, h.describe(ring, writeWrite|writeRead|readWrite|realTime)}
				}
			}
		}
	}
	return nil
}

// pathApart is a shortest way on which no two reads of what was overwritten follow each
// other, and which neither begins nor ends with one; nil if there is none.
func (h *lists) pathApart(from, to int) []int {
	type place struct {
		txn   int
		reads bool // came by one
	}
	start := place{from, true}
	before := map[place]place{start: start}
	queue := []place{start}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		if p == (place{to, false}) {
			out := []int{to}
			for p != start {
				p = before[p]
				out = append(out, p.txn)
			}
			slices.Reverse(out)
			return out
		}
		for _, next := range sortedKeys(h.edges[p.txn]) {
			e := h.edges[p.txn][next]
			for _, n := range []place{{next, false}, {next, true}} {
				if n.reads && (p.reads || e&readWrite == 0) || !n.reads && e&^readWrite == 0 {
					continue
				}
				if _, seen := before[n]; !seen {
					before[n] = p
					queue = append(queue, n)
				}
			}
		}
	}
	return nil
}

func (h *lists) describe(ring []int, with edge) string {
	var b strings.Builder
	for i := 1; i < len(ring); i++ {
		fmt.Fprintf(&b, "%d -%s-> %d; ", ring[i-1], h.edges[ring[i-1]][ring[i]]&with, ring[i])
	}
	return b.String()
}

func sortedKeys(m map[int]edge) []int {
	out := make([]int, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// path is a shortest way over at least one edge of a kind; nil if there is none.
func (h *lists) path(from, to int, with edge) []int {
	before := map[int]int{}
	queue := []int{from}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, next := range sortedKeys(h.edges[n]) {
			if h.edges[n][next]&with == 0 {
				continue
			}
			if next == to {
				out := []int{to, n}
				for n != from {
					n = before[n]
					out = append(out, n)
				}
				slices.Reverse(out)
				return out
			}
			if _, seen := before[next]; !seen && next != from {
				before[next] = n
				queue = append(queue, next)
			}
		}
	}
	return nil
}

// components are the strongly connected components of more than one transaction, by
// Tarjan's algorithm, without recursion.
func (h *lists) components(with edge) (out [][]int) {
	n := len(h.txns)
	index, low, onStack := make([]int, n), make([]int, n), make([]bool, n)
	var stack []int
	next := 1
	type frame struct {
		node int
		to   []int
	}
	for root := range n {
		if index[root] != 0 {
			continue
		}
		frames := []frame{{root, sortedKeys(h.edges[root])}}
		index[root], low[root] = next, next
		next++
		stack, onStack[root] = append(stack, root), true
		for len(frames) > 0 {
			f := &frames[len(frames)-1]
			if len(f.to) > 0 {
				to := f.to[0]
				f.to = f.to[1:]
				switch {
				case h.edges[f.node][to]&with == 0:
				case index[to] == 0:
					index[to], low[to] = next, next
					next++
					stack, onStack[to] = append(stack, to), true
					frames = append(frames, frame{to, sortedKeys(h.edges[to])})
				case onStack[to]:
					low[f.node] = min(low[f.node], index[to])
				}
				continue
			}
			node := f.node
			frames = frames[:len(frames)-1]
			if len(frames) > 0 {
				parent := frames[len(frames)-1].node
				low[parent] = min(low[parent], low[node])
			}
			if low[node] != index[node] {
				continue
			}
			var scc []int
			for {
				top := stack[len(stack)-1]
				stack, onStack[top] = stack[:len(stack)-1], false
				scc = append(scc, top)
				if top == node {
					break
				}
			}
			if len(scc) > 1 {
				slices.Sort(scc)
				out = append(out, scc)
			}
		}
	}
	return out
}
