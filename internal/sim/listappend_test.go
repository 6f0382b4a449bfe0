package sim

import "testing"

func r(key int, list ...int) ListOp { return ListOp{Key: key, List: list} }
func a(key, value int) ListOp       { return ListOp{Key: key, Append: true, Value: value} }

func TestCheckLists(t *testing.T) {
	// at is when a transaction runs; those of one moment are concurrent.
	txn := func(at int64, ops ...ListOp) ListTxn { return ListTxn{Ops: ops, Call: 10 * at, Return: 10*at + 5} }
	with := func(o Outcome, t ListTxn) ListTxn { t.Outcome = o; return t }
	stale := func(t ListTxn) ListTxn { t.Stale = true; return t }
	// snapshot is what snapshot isolation allows, or calls otherwise.
	snapshot := map[string]string{"write skew": "", "reads that disagree": "G-nonadjacent"}
	for _, c := range []struct {
		name, want string
		txns       []ListTxn
	}{
		{"reads that disagree", "G2", []ListTxn{txn(1, a(1, 1)), txn(1, a(2, 2)), txn(1, r(1, 1), r(2)), txn(1, r(1), r(2, 2)), txn(2, r(1, 1), r(2, 2))}},
		{"skewed read with an unknown", "G-single", []ListTxn{with(Unknown, txn(1, a(1, 1), a(2, 2))), txn(1, r(1), r(2, 2)), txn(2, r(1, 1), r(2, 2))}},
		{"stale, as it may be", "", []ListTxn{txn(1, a(1, 1)), stale(txn(2, r(1))), txn(3, r(1, 1))}},
		{"stale, and skewed", "G-single", []ListTxn{txn(1, a(1, 1), a(2, 2)), stale(txn(2, r(1), r(2, 2))), txn(3, r(1, 1), r(2, 2))}},
		{"in order", "", []ListTxn{txn(1, a(1, 1)), txn(2, r(1, 1), a(1, 2)), txn(3, r(1, 1, 2))}},
		{"concurrent reads may be old", "", []ListTxn{txn(1, a(1, 1)), txn(1, r(1)), txn(2, r(1, 1))}},
		{"own appends are read", "", []ListTxn{txn(1, a(1, 1), r(1, 1)), txn(2, r(1, 1))}},
		{"unknown may be seen", "", []ListTxn{with(Unknown, txn(1, a(1, 1))), txn(2, r(1, 1))}},
		{"unknown may be seen later", "", []ListTxn{with(Unknown, txn(1, a(1, 1))), txn(2, r(1)), txn(3, r(1, 1))}},
		{"unknown may be gone", "", []ListTxn{with(Unknown, txn(1, a(1, 1))), txn(2, r(1))}},
		{"ring of writes", "G0", []ListTxn{txn(1, a(1, 1), a(2, 2)), txn(1, a(1, 3), a(2, 4)), txn(2, r(1, 1, 3), r(2, 4, 2))}},
		{"aborted value", "G1a", []ListTxn{with(Aborted, txn(1, a(1, 1))), txn(2, r(1, 1))}},
		{"value between", "G1b", []ListTxn{txn(1, a(1, 1), a(1, 2)), txn(1, r(1, 1)), txn(2, r(1, 1, 2))}},
		{"ring of writes and reads", "G1c", []ListTxn{txn(1, a(1, 1), r(2, 2)), txn(1, a(2, 2), r(1, 1))}},
		{"skewed read", "G-single", []ListTxn{txn(1, a(1, 1), a(2, 2)), txn(1, r(1), r(2, 2)), txn(2, r(1, 1), r(2, 2))}},
		{"lost update", "G-single", []ListTxn{txn(1, r(1), a(1, 1)), txn(1, r(1), a(1, 2)), txn(2, r(1, 1, 2))}},
		{"write skew", "G2", []ListTxn{txn(1, r(1), a(2, 2)), txn(1, r(2), a(1, 1)), txn(2, r(1, 1), r(2, 2))}},
		{"stale read", "lost", []ListTxn{txn(1, a(1, 1)), txn(2, r(1)), txn(3, r(1, 1))}},
		{"lost write", "lost", []ListTxn{txn(1, a(1, 1)), txn(2, a(1, 2)), txn(3, r(1, 2))}},
		{"two orders", "order", []ListTxn{txn(1, a(1, 1)), txn(1, a(1, 2)), txn(1, r(1, 2)), txn(2, r(1, 1, 2))}},
		{"twice", "order", []ListTxn{txn(1, a(1, 1)), txn(2, r(1, 1, 1))}},
	} {
		got := ""
		if an := CheckLists(c.txns); an != nil {
			got = an.Name
			t.Logf("%s: %v", c.name, an)
		}
		if got != c.want {
			t.Errorf("%s: found %q, not %q", c.name, got, c.want)
		}
		want, other := snapshot[c.name]
		if !other {
			want = c.want
		}
		if got = ""; CheckSnapshotLists(c.txns) != nil {
			got = CheckSnapshotLists(c.txns).Name
		}
		if got != want {
			t.Errorf("%s: found %q by snapshot isolation, not %q", c.name, got, want)
		}
	}
}

func TestCheckRegisters(t *testing.T) {
	op := func(at int64, kind RegisterKind, from, to int) RegisterOp {
		return RegisterOp{Kind: kind, From: from, To: to, Value: to, Swapped: true, Call: 10 * at, Return: 10*at + 5}
	}
	unknown := op(1, Write, 0, 7)
	unknown.Unknown = true
	for _, c := range []struct {
		name string
		ok   bool
		ops  []RegisterOp
	}{
		{"write, read", true, []RegisterOp{op(1, Write, 0, 1), op(2, Read, 0, 1)}},
		{"stale read", false, []RegisterOp{op(1, Write, 0, 1), op(2, Read, 0, 0)}},
		{"swap from what is not there", false, []RegisterOp{op(1, Write, 0, 1), op(2, Swap, 2, 3)}},
		{"unknown happens late", true, []RegisterOp{unknown, op(2, Read, 0, 0), op(3, Read, 0, 7)}},
		{"unknown is undone", false, []RegisterOp{unknown, op(2, Read, 0, 7), op(3, Read, 0, 0)}},
	} {
		if err := CheckRegisters(c.ops, 0); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
