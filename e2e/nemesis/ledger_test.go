package nemesis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// ledger notes which writes were begun, by a token that each has in it, and which of them
// the set has acknowledged. Of the others nobody knows.
type ledger struct {
	mu           sync.Mutex
	begun, acked map[string]bool
	failures     failures
}

func newLedger() *ledger {
	return &ledger{begun: map[string]bool{}, acked: map[string]bool{}, failures: failures{}}
}

// write does one write and notes what becomes of it.
func (l *ledger) write(token string, do func() error) error {
	l.mu.Lock()
	l.begun[token] = true
	l.mu.Unlock()
	err := do()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.acked[token] = true
	} else {
		l.failures.note(err)
	}
	return err
}

// judge compares the tokens that are in the set, and how often, with what the ledger has.
func (l *ledger) judge(t *testing.T, name string, found map[string]int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 10
	wrong := l.wrong(found)
	for _, w := range wrong[:min(len(wrong), most)] {
		t.Errorf("%s: %s", name, w)
	}
	if len(wrong) > most {
		t.Errorf("%s: and %d more", name, len(wrong)-most)
	}
	if len(l.acked) == 0 {
		t.Errorf("%s: nothing was acknowledged", name)
	}
	t.Logf("%s: %d of %d writes acknowledged; errors: %v", name, len(l.acked), len(l.begun), l.failures)
}

// wrong says what is lost, what is there twice, and what nobody has written.
func (l *ledger) wrong(found map[string]int) (wrong []string) {
	for token := range l.acked {
		if found[token] == 0 {
			wrong = append(wrong, token+" was acknowledged and is lost")
		}
	}
	for token, n := range found {
		if n > 1 {
			wrong = append(wrong, fmt.Sprintf("%s is there %d times", token, n))
		}
		if !l.begun[token] {
			wrong = append(wrong, token+" is there, and nobody has written it")
		}
	}
	slices.Sort(wrong)
	return wrong
}

// What a ledger finds.
func TestLedger(t *testing.T) {
	l := newLedger()
	for _, token := range []string{"a", "b", "c"} {
		_ = l.write(token, func() error { return nil })
	}
	for _, token := range []string{"d", "e"} {
		_ = l.write(token, func() error { return context.Canceled })
	}
	if wrong := l.wrong(map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}); wrong != nil {
		t.Errorf("nothing is wrong: %v", wrong)
	}
	got := fmt.Sprint(l.wrong(map[string]int{"a": 2, "c": 1, "e": 2, "f": 1}))
	const want = "[a is there 2 times b was acknowledged and is lost e is there 2 times f is there, and nobody has written it]"
	if got != want {
		t.Errorf("%s, not %s", got, want)
	}
}

// failures counts errors that clients were answered, by their kind, and has one of each.
type failures map[string]*failure

type failure struct {
	count   int
	example error
}

func (f failures) note(err error) {
	var server mongo.ServerError
	kind := "another error"
	switch {
	case errors.Is(err, context.Canceled):
		kind = "canceled"
	case strings.Contains(err.Error(), "server selection"):
		kind = "no server to choose"
	case mongo.IsTimeout(err):
		kind = "timeout"
	case mongo.IsNetworkError(err):
		kind = "network"
	case errors.As(err, &server):
		kind = fmt.Sprint("code ", server.ErrorCodes())
	}
	if f[kind] == nil {
		f[kind] = &failure{example: err}
	}
	f[kind].count++
}

func (f failures) String() string {
	if len(f) == 0 {
		return "none"
	}
	var out strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(f)) {
		text := f[kind].example.Error()
		fmt.Fprintf(&out, "\n    %d %s, as: %.200s", f[kind].count, kind, text)
	}
	return out.String()
}

// clients runs n clients, each of which does one thing after another until ctx ends. A
// thing gets a context of its own: what was begun is brought to its end.
func clients(ctx context.Context, n int, do func(ctx context.Context, client int)) {
	var work sync.WaitGroup
	for i := range n {
		work.Go(func() {
			for ctx.Err() == nil {
				do(context.WithoutCancel(ctx), i)
				time.Sleep(thinkTime)
			}
		})
	}
	work.Wait()
}

// thinkTime is between two things that a client does.
const thinkTime = 3 * time.Millisecond
