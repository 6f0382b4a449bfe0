package catalog

import (
	"context"
	"testing"

	"github.com/mayflydb/mayfly/internal/catalog/retryable"
	"github.com/mayflydb/mayfly/internal/storage"
)

// keeping is a Committer that keeps the encodings of what it commits.
type keeping struct{ effects [][]byte }

func (k *keeping) Writable() error { return nil }

func (k *keeping) Commit(ctx context.Context, e *Effect, d storage.Durability) error {
	k.effects = append(k.effects, e.AppendEncoded(nil))
	return e.Commit(ctx, d)
}

// BenchmarkApplyForeign applies retryable inserts of other members, 20 in a run, as a
// secondary does with 64 clients. An operation is one insert.
func BenchmarkApplyForeign(b *testing.B) {
	const run, runs = 20, 100
	k := new(keeping)
	open := func(k Committer) *Catalog {
		e, err := storage.Open(storage.Options{Dir: b.TempDir(), CacheBytes: 64 << 20})
		if err != nil {
			b.Fatal(err)
		}
		c, err := Open(e, Options{Committer: k, Operations: true})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			c.Close()
			e.Close()
		})
		return c
	}
	c := open(k)
	if _, err := c.Create(b.Context(), testNS, nil); err != nil {
		b.Fatal(err)
	}
	if _, _, err := c.CreateIndexes(b.Context(), testNS, specs(b, testNS, `{"key": {"a": 1}, "name": "a"}`)); err != nil {
		b.Fatal(err)
	}
	setup := len(k.effects)
	for i := range run * runs {
		var n Newest
		s := retryable.Session{ID: [16]byte{byte(i % 64)}}
		if _, err := n.Txn(c, s); err != nil {
			b.Fatal(err)
		}
		x, err := c.BeginExecution(&n, s, int64(i))
		if err != nil {
			b.Fatal(err)
		}
		u := c.Begin()
		x.Execute(0)
		if err := x.Write(u, func(u *Unit) error { return u.Insert(b.Context(), c.Lookup(testNS), benchDoc(i)) }); err != nil {
			b.Fatal(err)
		}
		x.Did(retryable.Inserted, 0, nil)
		if err := x.Commit(b.Context(), u, storage.Buffered); err != nil {
			b.Fatal(err)
		}
		x.End()
	}
	var other *Catalog
	apply := func(at int, effects [][]byte) {
		all := make([]Logged, len(effects))
		for i, encoded := range effects {
			var err error
			if all[i].Effect, err = other.Decode(encoded); err != nil {
				b.Fatal(err)
			}
			all[i].At.Index = uint64(at + i + 1)
		}
		if err := other.ApplyAll(all); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for n := 0; n < b.N; n += run {
		if at := setup + n%(run*runs); at == setup {
			b.StopTimer()
			other = open(nil)
			for i := range setup {
				apply(i, k.effects[i:i+1])
			}
			b.StartTimer()
		}
		at := setup + n%(run*runs)
		apply(at, k.effects[at:at+run])
	}
}
