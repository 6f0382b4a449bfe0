package console

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mayflydb/mayfly/internal/memory"
)

// What is parsed is taken from the budget of requests, as what is run is: the text, then the value as
// well; and given back.
func TestParseTakesMemory(t *testing.T) {
	s := &Server{o: Options{Memory: memory.NewBudget(0)}}
	parse := func(ctx context.Context) int {
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/parse", strings.NewReader(fmt.Sprintf(`{"text": "[%s1]"}`, strings.Repeat("1,", 50_000))))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.parse(w, r, nil)
		return w.Code
	}
	if code := parse(t.Context()); code != http.StatusOK {
		t.Fatalf("parse: %d", code)
	}
	const text, value = 2 * 50_000, 10 * 50_000 // each int has a type, some digits, a zero and four bytes
	if got := s.o.Memory.Stats().Requests; got.Held != 0 || got.Peak < textGrowth*(text+value) {
		t.Errorf("taken: %+v", got)
	}

	var others [2]memory.Request // the pool is full, and one has what is beyond it
	for i := range others {
		others[i].Open(s.o.Memory)
		if err := others[i].Set(t.Context(), 16<<20); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code := parse(ctx); code != http.StatusServiceUnavailable {
		t.Errorf("without memory: %d", code)
	}
}
