package node

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// preparedBank transfers money by transactions that are prepared first, and decided by chance,
// on a set whose primary changes all the time.
type preparedBank struct {
	s    *testSet
	mu   sync.Mutex
	done map[string]bool // each transfer, and whether it was committed
	over atomic.Bool
	// changes counts the primaries.
	changes atomic.Int64
}

// clerk makes transfers in a session of its own.
type clerk struct {
	b       *preparedBank
	session byte
	number  int64
	clients map[string]*command.Client
	rng     *rand.Rand
	at      string // the member that was primary last
}

var bankMembers = []string{"a", "b", "c"}

// bankAccounts is the number of accounts, which have 100 each at the beginning.
const bankAccounts = 16

// send sends a statement of the clerk's transaction to the member that it takes for the primary.
func (k *clerk) send(db, text string, start bool) bson.Doc {
	b := new(bson.Builder).Fields(bson.MustParse(text))
	id := [16]byte{k.session}
	b.OpenDoc("lsid").Binary("id", 4, id[:]).Close().Int64("txnNumber", k.number).Bool("autocommit", false).Int32("maxTimeMS", 5000)
	if start {
		b.Bool("startTransaction", true)
	}
	return k.b.s.members[k.at].Dispatcher.Dispatch(k.b.s.t.Context(), &command.Request{Client: k.clients[k.at], DB: db, Body: b.Finish()}).Body
}

// is returns the code of a reply, 0 if it is ok.
func is(r bson.Doc) int64 {
	if bson.ToDouble(r.Lookup("ok")) == 1 {
		return 0
	}
	return bson.ClampToInt64(r.Lookup("code"))
}

// elsewhere says that another member may be primary, or the outcome is not known.
func elsewhere(code int64) bool {
	return code == 10107 || code == 11602 || code == 189 || code == 91 || code == 13435
}

// until sends a command to one member after the other, until the answer is final.
func (k *clerk) until(text string, final func(code int64) bool) bson.Doc {
	for n := 0; ; n++ {
		r := k.send("admin", text, false)
		if final(is(r)) {
			return r
		}
		k.at = bankMembers[n%len(bankMembers)]
		time.Sleep(time.Millisecond)
	}
}

// transfer makes one transfer.
func (k *clerk) transfer() {
	k.number++
	name := fmt.Sprintf("%d-%d", k.session, k.number)
	from, to := k.rng.IntN(bankAccounts), k.rng.IntN(bankAccounts)
	abort := func() {
		k.until(`{"abortTransaction":1,"coordinator":"s0"}`, func(code int64) bool { return code == 0 || code == 251 || code == 225 })
		k.b.note(name, false)
	}
	for i, text := range []string{
		fmt.Sprintf(`{"update":"accounts","updates":[{"q":{"_id":%d},"u":{"$inc":{"n":-1}}}]}`, from),
		fmt.Sprintf(`{"update":"accounts","updates":[{"q":{"_id":%d},"u":{"$inc":{"n":1}}}]}`, to),
		fmt.Sprintf(`{"insert":"ledger","documents":[{"_id":"%s"}]}`, name),
	} {
		if code := is(k.send("test", text, i == 0)); code != 0 {
			if elsewhere(code) {
				k.at = bankMembers[k.rng.IntN(len(bankMembers))]
			}
			abort()
			return
		}
	}
	r := k.until(`{"prepareTransaction":1,"coordinator":"s0"}`, func(code int64) bool { return !elsewhere(code) })
	if is(r) != 0 || k.rng.IntN(3) == 0 {
		abort()
		return
	}
	at := r.Lookup("prepareTimestamp").Timestamp()
	k.until(`{"commitTransaction":1,"commitTimestamp":`+timestamp(at)+`}`, func(code int64) bool { return code == 0 })
	k.b.note(name, true)
}

func (b *preparedBank) note(name string, committed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done[name] = committed
}

// TestPreparedBank holds that prepared transactions are decided as their coordinator said, each
// once and whole, whatever primaries they met.
// (Invariant locks-first.)
func TestPreparedBank(t *testing.T) {
	const clerks, transfers, primaries = 4, 40, 12 // of each clerk, at the least
	s := newTestSet(t, bankMembers...)
	s.run("a", "admin", `{"replSetInitiate":{"_id":"rs0","members":[{"_id":0,"host":"a:1","priority":5},{"_id":1,"host":"b:1"},{"_id":2,"host":"c:1"}]}}`)
	s.wait([]string{"a", "PRIMARY"})
	for i := range bankAccounts {
		s.statement(fmt.Sprintf(`- {"insert":"accounts","documents":[{"_id":%d,"n":100}]}`, i))
	}
	s.statement(`- {"create":"ledger"}`)
	b := &preparedBank{s: s, done: map[string]bool{}}
	var work, disturbs sync.WaitGroup
	for i := range clerks {
		k := &clerk{b: b, session: byte(10 + i), clients: map[string]*command.Client{}, rng: rand.New(rand.NewPCG(uint64(i), 7)), at: "a"}
		for _, name := range bankMembers {
			k.clients[name] = &command.Client{ConnectionID: int64(100 + i)}
			s.members[name].Dispatcher.Clients.Connect(k.clients[name])
		}
		work.Go(func() {
			for n := 0; n < transfers || b.changes.Load() < primaries; n++ {
				k.transfer()
			}
		})
	}
	disturbs.Go(func() {
		for n := 0; !b.over.Load(); n++ {
			if is(s.run(bankMembers[n%len(bankMembers)], "admin", `{"replSetStepUp":1}`)) == 0 {
				b.changes.Add(1)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	work.Wait()
	b.over.Store(true)
	disturbs.Wait()
	var all bson.Doc
	s.until("equal members", func() bool {
		hashes := map[string]bool{}
		for _, name := range bankMembers {
			hashes[s.statementOn(name, `- {"dbHash":1}`).Lookup("md5").Str()] = true
			if all = s.statementOn(name, `- {"find":"ledger","batchSize":100000,"$readPreference":{"mode":"nearest"}}`); is(all) != 0 {
				return false
			}
		}
		return len(hashes) == 1
	})
	// The entries are read one by one: the text of a long document is cut.
	ledger, committed := map[string]bool{}, 0
	for entry := range all.Lookup("cursor").Doc().Lookup("firstBatch").Doc().Values() {
		ledger[entry.Doc().Lookup("_id").Str()] = true
	}
	for name, did := range b.done {
		if did {
			committed++
		}
		if ledger[name] != did {
			t.Errorf("%s: committed is %v, and the ledger says otherwise", name, did)
		}
	}
	if committed == 0 {
		t.Errorf("none of %d transfers was committed", len(b.done))
	}
	sum := s.statement(`- {"aggregate":"accounts","pipeline":[{"$group":{"_id":null,"n":{"$sum":"$n"}}}],"cursor":{},"$readPreference":{"mode":"nearest"}}`)
	if !strings.Contains(sum.String(), fmt.Sprintf("n: %d ", 100*bankAccounts)) {
		t.Errorf("%s", sum)
	}
	for _, name := range bankMembers {
		if n := s.members[name].Catalog.CountPrepared(); n != 0 {
			t.Errorf("%s holds %d", name, n)
		}
	}
	t.Logf("%d of %d transfers were committed, by %d primaries", committed, len(b.done), b.changes.Load())
}
