package exec

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/replay"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/update"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// openLog opens a house whose catalog commits by a log that a test holds and lets go.
func openLog(t opener, fs *storage.MemFS) (*house, *replay.Recorder) {
	t.Helper()
	var log *replay.Recorder
	e, c := replay.OpenAround(t, storage.Options{Dir: "db", FS: fs, CacheBytes: 8 << 20, MemtableBytes: 512 << 10}, catalog.Options{}, func(r *replay.Recorder) catalog.Committer {
		log = r
		return r
	})
	return &house{e, c, &Executor{Catalog: c}}, log
}

// statement is one of an operation, as it is written.
type statement struct {
	bson.Doc // {q, u, multi, upsert, remove, keep}
	// pause is called when an update has read a document and not looked at the indexes yet;
	// nil for nothing.
	pause func()
}

// do runs a statement.
func (s statement) do(ctx context.Context, t asker, h *house, w *Writer, c *catalog.Collection) (*Written, error) {
	t.Helper()
	q := asked{filter: s.Lookup("q").Doc().String()}.query(t)
	multi, keep := s.Has("multi"), s.Has("keep")
	if s.Has("remove") {
		return w.Delete(ctx, c, &Delete{Query: q, Multi: multi, Keep: keep})
	}
	u, err := update.Parse(s.Lookup("u"), &update.Options{})
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	o := &Update{Query: q, Update: u, Multi: multi, Keep: keep, Upsert: s.Has("upsert")}
	if s.pause != nil {
		o.Check = func(bson.Doc, bson.Doc) error {
			s.pause()
			return nil
		}
	}
	return w.Update(ctx, c, o)
}

// told is what a client is told.
func (w *Written) told() string {
	if w.deletes {
		return fmt.Sprintf("deleted %d", w.Deleted)
	}
	s := fmt.Sprintf("matched %d, modified %d", w.Matched, w.Modified)
	if w.Old != nil {
		s += fmt.Sprintf(", was %s", w.Old)
	}
	return s
}

// hotScript runs a script of clients whose writes the log holds.
type hotScript struct {
	t   *testing.T
	h   *house
	log *replay.Recorder
	// ended is what clients were told since it was shown last, by their names.
	ended   chan [2]string
	clients int // that run
}

var hotNS = schema.Namespace{DB: "d", Coll: "c"}

// start runs what a client does, until it waits or has ended.
func (s *hotScript) start(name string, f func() string) {
	s.clients++
	go func() { s.ended <- [2]string{name, f()} }()
}

// show is what clients were told since the last time, in the order of their names, and
// how many still wait.
func (s *hotScript) show() string {
	synctest.Wait()
	var lines []string
	for len(s.ended) > 0 {
		e := <-s.ended
		lines = append(lines, e[0]+": "+e[1]+"\n")
		s.clients--
	}
	slices.Sort(lines)
	p := s.h.catalog.Pending()
	return strings.Join(lines, "") + fmt.Sprintf("%d clients wait, the log has %d effects, %d documents are pending\n", s.clients, s.log.Waiting(), p.Documents)
}

func (s *hotScript) run(d *datadriven.TestData) string {
	ctx := context.Background()
	n, name := 1, ""
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "n":
			a.Scan(s.t, 0, &n)
		default:
			name = a.Key
		}
	}
	switch d.Cmd {
	case "collection":
		if c := s.h.catalog.Lookup(hotNS); c != nil {
			if _, err := s.h.catalog.Drop(ctx, hotNS); err != nil {
				s.t.Fatal(err)
			}
		}
		if _, err := s.h.catalog.Create(ctx, hotNS, nil); err != nil {
			s.t.Fatal(err)
		}
		var specs []string
		docs := s.h.exec.NewWriter(storage.Buffered)
		for line := range strings.Lines(d.Input) {
			if strings.HasPrefix(line, `{"key"`) {
				specs = append(specs, line)
			}
		}
		s.h.index(s.t, hotNS, specs)
		for line := range strings.Lines(d.Input) {
			if !strings.HasPrefix(line, `{"key"`) {
				if err := docs.Insert(ctx, s.h.catalog.Lookup(hotNS), parseDoc(s.t, line)); err != nil {
					s.t.Fatal(err)
				}
			}
		}
		if err := docs.Commit(ctx); err != nil {
			s.t.Fatal(err)
		}
		return ""
	case "hold":
		s.log.Hold()
		return ""
	case "apply":
		s.log.Apply(n)
	case "drop":
		s.log.Drop(n)
	case "depose":
		if err := s.log.Depose(n); err != nil {
			s.t.Fatal(err)
		}
	case "release":
		s.log.Release()
	case "do", "monitor":
		s.start(name, func() string { return s.client(ctx, d.Input, d.Cmd == "monitor") })
	case "insert":
		doc := parseDoc(s.t, d.Input)
		s.start(name, func() string {
			w := s.h.exec.NewWriter(storage.Buffered)
			defer w.Abort()
			if err := w.Insert(ctx, s.h.catalog.Lookup(hotNS), doc); err != nil {
				return err.Error()
			}
			return outcomeOf(w.Commit(ctx))
		})
	case "index":
		s.start(name, func() string {
			s.h.index(s.t, hotNS, []string{d.Input})
			return "ready"
		})
	case "documents":
		return strings.Join(s.h.all(s.t, hotNS), "\n") + "\n"
	case "find":
		a, err := s.h.ask(s.t, s.h.catalog.Lookup(hotNS), asked{filter: d.Input})
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(a.docs, "\n")
	case "numbers":
		p := s.h.catalog.Pending()
		return fmt.Sprintf("%d writes handed over, %d reads of them, %d waits, %d refused\n", p.Writes, p.Read, p.Waited, p.Refused)
	default:
		d.Fatalf(s.t, "unknown command %s", d.Cmd)
	}
	return s.show()
}

func outcomeOf(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

// client runs statements as one operation, and says what it is told. The monitor's reads
// nothing that is pending.
func (s *hotScript) client(ctx context.Context, statements string, monitor bool) string {
	w := s.h.exec.NewWriter(storage.Buffered)
	if monitor {
		w.Abort()
		w = s.h.exec.NewUnmeteredWriter(storage.Buffered)
	}
	defer w.Abort()
	var told []string
	for line := range strings.Lines(statements) {
		out, err := statement{Doc: parseDoc(s.t, line)}.do(ctx, s.t, s.h, w, s.h.catalog.Lookup(hotNS))
		if err != nil {
			return err.Error()
		}
		told = append(told, out.told())
	}
	if err := w.Commit(ctx); err != nil {
		return err.Error()
	}
	return strings.Join(told, "; ")
}

// TestHotDocument is the script of testdata/hotdocument: what clients are told, and see,
// who update documents while the log holds the updates before.
//
//	collection  makes the collection anew, with indexes and documents
//	hold        from now on the log orders effects, and applies none by itself
//	do NAME     a client runs statements as one operation
//	monitor NAME  the same as the TTL monitor does
//	insert NAME, index NAME
//	apply n=N   the log applies the next N effects
//	drop n=N    it refuses all behind the first N
//	depose n=N  the primary's term ends; the first N survive in the end
//	release     the log applies all, and goes on doing so
//
// At the end all effects, applied to another store, come to the same.
func TestHotDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, log := openLog(t, storage.NewMemFS())
		s := &hotScript{t: t, h: h, log: log, ended: make(chan [2]string, 100)}
		datadriven.RunTest(t, "testdata/hotdocument", func(_ *testing.T, d *datadriven.TestData) string { return s.run(d) })
		if s.clients > 0 {
			t.Errorf("%d clients wait at the end", s.clients)
		}
		h.close(t)
	})
}

// TestDeposedMixesNoStates holds that a client is not told what is true of no state: its
// update read the document on a member that was deposed, and the index after a write was
// applied whose outcome nobody had been told, and which has no lock any more.
func TestDeposedMixesNoStates(t *testing.T) {
	for _, late := range []bool{false, true} { // the update begins when there is no primary
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			h, log := openLog(t, storage.NewMemFS())
			m := &hotModel{t: t, h: h, log: log}
			if _, err := h.catalog.Create(ctx, hotNS, nil); err != nil {
				t.Fatal(err)
			}
			h.lieByKey(t, hotNS, `{"v": "hashed"}`)
			h.index(t, hotNS, []string{`{"key": {"u": 1}, "name": "u", "unique": true}`})
			if _, err := m.operate(ctx, `{"q": {"_id": 0}, "u": {"$set": {"v": 0, "u": 7}}, "upsert": true}`); err != nil {
				t.Fatal(err)
			}
			log.Hold()
			moved, updated := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := m.operate(ctx, `{"q": {"_id": 0, "v": 0}, "u": {"$set": {"v": 1}}}`)
				moved <- err
			}()
			synctest.Wait()
			goOn := make(chan struct{})
			update := func() {
				w := h.exec.NewWriter(storage.Buffered)
				defer w.Abort()
				s := statement{parseDoc(t, `{"q": {"_id": 0}, "u": {"$set": {"v": 2}}}`), func() { <-goOn }}
				_, err := s.do(ctx, t, h, w, h.catalog.Lookup(hotNS))
				updated <- err
			}
			if !late {
				go update()
				synctest.Wait()
			}
			log.StepDown()
			if err := <-moved; !errIsUnknown(err) {
				t.Errorf("the write in the log ends with %v", err)
			}
			if late {
				go update()
			}
			synctest.Wait()
			if err := log.StepUp(1); err != nil {
				t.Fatal(err)
			}
			close(goOn)
			if err := <-updated; !mongoerr.Is(err, mongoerr.InterruptedDueToReplStateChange) || errIsUnknown(err) {
				t.Errorf("the update on the deposed member ends with %v", err)
			}
			log.Release()
			if v := m.read(0); v != 1 {
				t.Errorf("v is %d", v)
			}
			h.close(t)
		})
	}
}

// errIsUnknown says that the outcome of an operation is unknown; any other error says
// that it left no trace.
func errIsUnknown(err error) bool {
	return mongoerr.From(err).Message == "the outcome of the operation is unknown"
}
