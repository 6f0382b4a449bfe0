package forecast

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/measurements"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/schema"
)

const (
	// interruptEvery is how many documents are read between two checks of the context.
	interruptEvery = 128

	forecastMinutes = 60
	forecastHours   = 24
	forecastDays    = 30
	minuteMillis    = int64(time.Minute / time.Millisecond)
	hourMillis      = 60 * minuteMillis
	dayMillis       = 24 * hourMillis
)

// Forecast says what comes due by a rule, and when. Its instants are in
// milliseconds since 1970, schema.Never for none.
type Forecast struct {
	Now     int64
	Due     Tally // at Now, and before
	Oldest  int64 // of what is due
	Next    int64 // of the rest
	Minutes [forecastMinutes]Tally
	Hours   [forecastHours]Tally // the first is the sum of Minutes
	Days    [forecastDays]Tally  // the first is the sum of Hours
	Later   Tally
	// Never counts what has no instant; only a forecast from documents knows it.
	Never Tally
	// Sized says that bytes were counted as well, and Bucketed that the documents
	// are measurements in buckets.
	Sized, Bucketed bool
}

// Tally counts documents, their bytes, and the buckets that they are in.
type Tally struct{ Documents, Bytes, Buckets int64 }

func (t *Tally) add(o Tally) {
	t.Documents += o.Documents
	t.Bytes += o.Bytes
	t.Buckets += o.Buckets
}

// OfDocuments makes a forecast from all documents of a collection, which may be nil,
// for a rule that need not be in force: for dry runs.
func OfDocuments(ctx context.Context, x *exec.Executor, c *catalog.Collection, r *schema.Rule, now int64) (*Forecast, error) {
	if c != nil && c.IsTimeseries() {
		b := &measurements.Rule{Rule: r}
		if r.Index != nil {
			b.Filter = r.Index.Filter
		}
		return OfBuckets(ctx, x, c, b, now)
	}
	f := newForecast(now)
	f.Sized = true
	if c == nil || c.Ident == 0 {
		return f, nil
	}
	snapshot := x.Catalog.Engine().NewSnapshot()
	defer snapshot.Close()
	it, err := snapshot.NewIter(c.Ident, nil, nil)
	if err != nil {
		return nil, err
	}
	defer it.Close()
	for ok, n := it.First(), 0; ok; ok, n = it.Next(), n+1 {
		if n%interruptEvery == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		doc, err := it.Value()
		if err != nil {
			return nil, err
		}
		f.count(r.Due(doc), Tally{Documents: 1, Bytes: int64(len(doc))})
	}
	return f, it.Err()
}

func newForecast(now int64) *Forecast {
	return &Forecast{Now: now, Oldest: schema.Never, Next: schema.Never}
}

// count adds documents that are due at an instant.
func (f *Forecast) count(due int64, t Tally) {
	switch {
	case due == schema.Never:
		f.Never.add(t)
		return
	case due <= f.Now:
		f.Due.add(t)
		f.Oldest = min(f.Oldest, due)
		return
	}
	f.Next = min(f.Next, due)
	in := due - f.Now - 1
	if in < 0 { // the difference is beyond 64 bits
		in = schema.Never
	}
	switch {
	case in < dayMillis:
		if in < hourMillis {
			f.Minutes[in/minuteMillis].add(t)
		}
		f.Hours[in/hourMillis].add(t)
		f.Days[0].add(t)
	case in < forecastDays*dayMillis:
		f.Days[in/dayMillis].add(t)
	default:
		f.Later.add(t)
	}
}

// OfIndex makes a forecast from the entries of a rule's index, without reading
// documents. A document with several dates counts once, by the earliest.
func OfIndex(ctx context.Context, x *exec.Executor, c *catalog.Collection, r *catalog.Rule, now int64) (*Forecast, error) {
	f := newForecast(now)
	s, done := x.RuleEntries(c)
	defer done()
	if r.Index.Multikey().Any() {
		s.CountOnce()
	}
	var err error
	if f.Oldest, err = s.First(ctx, r, r.DueRanges(now)); err != nil {
		return nil, err
	}
	if f.Next, err = s.First(ctx, r, r.RangesBetween(now, schema.Never-1)); err != nil {
		return nil, err
	}
	if f.Due.Documents, err = s.Count(ctx, r, r.DueRanges(now)); err != nil {
		return nil, err
	}
	from := now
	count := func(t *Tally, to int64) error {
		if to == from {
			return nil
		}
		n, err := s.Count(ctx, r, r.RangesBetween(from, to))
		t.Documents += n
		from = to
		return err
	}
	for i := range f.Minutes {
		if f.Next > now+hourMillis {
			break // none has any
		}
		if err := count(&f.Minutes[i], now+int64(i+1)*minuteMillis); err != nil {
			return nil, err
		}
		f.Hours[0].add(f.Minutes[i])
	}
	for i := range f.Hours {
		if err := count(&f.Hours[i], now+int64(i+1)*hourMillis); err != nil {
			return nil, err
		}
		f.Days[0].add(f.Hours[i])
	}
	for i := range f.Days[1:] {
		if err := count(&f.Days[i+1], now+int64(i+2)*dayMillis); err != nil {
			return nil, err
		}
	}
	return f, count(&f.Later, schema.Never-1)
}

// fields writes the counts of t.
func (f *Forecast) fields(b *bson.Builder, t Tally) {
	b.Int("documents", t.Documents)
	if f.Sized {
		b.Int("bytes", t.Bytes)
	}
	if f.Bucketed {
		b.Int("buckets", t.Buckets)
	}
}

// Append writes the forecast's fields: dueNow, oldestDue, nextDue, and a
// histogram of the minutes, hours and days in which something comes due.
func (f *Forecast) Append(b *bson.Builder) {
	tally := func(name string, t Tally) {
		b.OpenDoc(name)
		f.fields(b, t)
		b.Close()
	}
	date := func(name string, ms int64) {
		if ms == schema.Never {
			b.Null(name)
			return
		}
		b.Date(name, ms)
	}
	tally("dueNow", f.Due)
	date("oldestDue", f.Oldest)
	date("nextDue", f.Next)
	b.OpenDoc("histogram")
	f.appendBars(b, "minutes", f.Minutes[:], minuteMillis)
	f.appendBars(b, "hours", f.Hours[:], hourMillis)
	f.appendBars(b, "days", f.Days[:], dayMillis)
	tally("later", f.Later)
	b.Close()
	if f.Sized {
		tally("never", f.Never)
	}
}

func (f *Forecast) appendBars(b *bson.Builder, name string, bars []Tally, width int64) {
	b.OpenArray(name)
	n := 0
	for i, t := range bars {
		if t.Documents == 0 {
			continue
		}
		b.OpenDoc(bson.Index(n)).Date("from", f.Now+int64(i)*width)
		f.fields(b, t)
		b.Close()
		n++
	}
	b.Close()
}
