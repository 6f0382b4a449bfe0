package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// streamsRow is the name of the row of change streams, on a set of one, a set of three, and
// through a router over three shards, where it is only the first: how long from an insert to its event, how fast one stream follows an insertMany, and how
// fast documents that expire as ranges are told of.
const streamsRow = "streams"

const (
	// toldPerSecond is how many documents the clients insert in a second while it is
	// measured when streams tell of them.
	toldPerSecond = 5000
	toldClients   = 8
	// followedSeconds is how many times as long as other rows the part runs in which a
	// stream follows an insertMany.
	followedSeconds = 5
	// streamAwait is how long a getMore of a stream waits for events.
	streamAwait = time.Second
)

// streams measures the row.
func (b *bench) streams(ctx context.Context) error {
	if err := b.hollowStreams(ctx); err != nil {
		return err
	}
	monitored := []string{"--setParameter", "ttlMonitorEnabled=false", "--setParameter", "ttlMonitorSleepSecs=1"}
	for _, set := range []struct {
		name  string
		start func() (*replicaSet, error)
	}{
		{"a set of one", func() (*replicaSet, error) {
			return startSetOfOne(ctx, filepath.Join(b.dir, streamsRow, "one"), &b.o, monitored...)
		}},
		{"a set of three", func() (*replicaSet, error) {
			return startReplicaSet(ctx, b.dir, &b.o, monitored...)
		}},
	} {
		s, err := set.start()
		if err == nil {
			err = b.streamsOn(ctx, s, set.name)
		}
		if err := errors.Join(err, s.close()); err != nil {
			return fmt.Errorf("%s: %s: %w", streamsRow, set.name, err)
		}
	}
	c, err := startCluster(ctx, filepath.Join(b.dir, streamsRow, "cluster"), &b.o)
	if err == nil {
		err = c.grow(ctx)
	}
	if err == nil {
		err = b.streamsTell(ctx, c, "a router, three shards")
	}
	if err := errors.Join(err, c.close()); err != nil {
		return fmt.Errorf("%s: a cluster: %w", streamsRow, err)
	}
	return nil
}

// hollowStreams measures what 100 streams cost, whoever answers: the driver asks for batches of
// so many events, as fast as it gets them, of a server that has them ready.
func (b *bench) hollowStreams(ctx context.Context) error {
	if b.hollow == nil {
		return nil
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\n100 streams of a server that has all answers ready\tevents each\tanswers/s\tevents/s\tcpu/answer\tclient\tcpu/event\tclient\t")
	for _, batch := range hollowBatches {
		all, done, err := followAt(ctx, b.hollow, 100, bson.D{})
		if err != nil {
			return errors.Join(err, done())
		}
		server, err := b.hollow.cpu()
		if err != nil {
			return errors.Join(err, done())
		}
		own, err := ownCPU()
		if err != nil {
			return errors.Join(err, done())
		}
		begun, last := time.Now(), max(b.o.Duration, time.Second)
		var answers atomic.Int64
		err = parallel(len(all), func(i int) error {
			all[i].batch = batch
			for time.Since(begun) < last {
				n, err := all[i].next(func(e bson.Raw) error {
					_, ok := e.Lookup("fullDocument", "at").AsInt64OK()
					if !ok {
						return errWrong
					}
					return nil
				})
				if err == nil && n != batch {
					err = errWrong
				}
				if err != nil {
					return err
				}
				answers.Add(1)
			}
			return nil
		})
		took := time.Since(begun)
		client, ownErr := ownCPU()
		client -= own
		after, cpuErr := b.hollow.cpu()
		if err := errors.Join(err, ownErr, cpuErr, done()); err != nil {
			return err
		}
		n := answers.Load()
		events := n * int64(batch)
		fmt.Fprintf(w, "\t%d\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t\n", batch, float64(n)/took.Seconds(), float64(events)/took.Seconds(), micros((after-server)/time.Duration(n)), micros(client/time.Duration(n)),
			micros((after-server)/time.Duration(events)), micros(client/time.Duration(events)))
	}
	return w.Flush()
}

// watched is where streams are opened: a set, or a router.
type watched interface {
	reset(ctx context.Context, l layout) error
	cpu() (time.Duration, error)
	// entrance is the process that answers, and documents the collection.
	entrance(ctx context.Context) (*mayfly, error)
	documents() *mongo.Collection
	profiles(ctx context.Context, b *bench, name string) (func() error, error)
}

func (s *replicaSet) entrance(ctx context.Context) (*mayfly, error) { return s.primary(ctx) }
func (s *replicaSet) documents() *mongo.Collection                  { return s.plain }
func (s *replicaSet) profiles(ctx context.Context, b *bench, name string) (func() error, error) {
	return b.profileSet(ctx, s, fmt.Sprintf("%s-of-%d", name, len(s.members)))
}

func (c *cluster) entrance(context.Context) (*mayfly, error) { return c.router, nil }
func (c *cluster) documents() *mongo.Collection              { return c.plain }
func (c *cluster) profiles(ctx context.Context, b *bench, name string) (func() error, error) {
	return b.profileCluster(ctx, c, name), nil
}

func (b *bench) streamsOn(ctx context.Context, s *replicaSet, name string) error {
	if err := b.streamsTell(ctx, s, name); err != nil {
		return err
	}
	if err := b.followInserts(ctx, s, name); err != nil {
		return err
	}
	return b.followExpiry(ctx, s, name)
}

func (b *bench) streamsTell(ctx context.Context, s watched, name string) error {
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%s\tstreams\tinserts/s\tinsert p50\tp99\tevent p50\tp99\tbeyond p50\tevents/s\tcpu/event\t\n", name)
	for _, streams := range []int{1, 100} {
		r, err := b.tell(ctx, s, streams)
		if err != nil {
			return err
		}
		own, ownMost := percentiles(r.inserts)
		event, most := percentiles(r.events)
		fmt.Fprintf(w, "insert to event\t%d\t%.0f\t%s\t%s\t%s\t%s\t%s\t%.0f\t%s\t\n", streams, float64(len(r.inserts))/r.took.Seconds(), micros(own), micros(ownMost),
			micros(event), micros(most), micros(event-own), float64(len(r.events))/r.took.Seconds(), micros(r.cpu/time.Duration(len(r.events))))
	}
	return w.Flush()
}

// follower is a change stream on the documents, read without a driver's cursor: events are
// counted and looked into, and not decoded.
type follower struct {
	client *mongo.Client
	ctx    context.Context // with the stream's session
	id     int64
	batch  int // of events, at the most; 0 for no bound
}

// follow opens streams.
func follow(ctx context.Context, s watched, n int, stage bson.D) (all []*follower, done func() error, err error) {
	p, err := s.entrance(ctx)
	if err != nil {
		return nil, nil, err
	}
	return followAt(ctx, p, n, stage)
}

// followAt opens streams on a server.
func followAt(ctx context.Context, p *mayfly, n int, stage bson.D) (all []*follower, done func() error, err error) {
	c, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + local(p.port) + "/?directConnection=true").SetMaxPoolSize(0))
	if err != nil {
		return nil, nil, err
	}
	done = func() error { return c.Disconnect(context.Background()) }
	for range n {
		session, err := c.StartSession()
		if err != nil {
			return nil, done, err
		}
		f := &follower{client: c, ctx: mongo.NewSessionContext(ctx, session)}
		reply, err := c.Database("bench").RunCommand(f.ctx, doc("aggregate", "documents", "pipeline", bson.A{doc("$changeStream", stage)}, "cursor", doc("batchSize", 0))).Raw()
		if err != nil {
			return nil, done, err
		}
		f.id = reply.Lookup("cursor", "id").Int64()
		all = append(all, f)
	}
	return all, done, nil
}

// next calls f for each event of the next batch.
func (f *follower) next(each func(bson.Raw) error) (n int, err error) {
	more := doc("getMore", f.id, "collection", "documents", "maxTimeMS", streamAwait.Milliseconds())
	if f.batch > 0 {
		more = append(more, bson.E{Key: "batchSize", Value: int64(f.batch)})
	}
	reply, err := f.client.Database("bench").RunCommand(f.ctx, more).Raw()
	if err != nil {
		return 0, err
	}
	events, err := reply.Lookup("cursor", "nextBatch").Array().Values()
	if err != nil {
		return 0, err
	}
	for _, e := range events {
		if err := each(e.Document()); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// told is what was measured of inserts and their events.
type told struct {
	inserts, events []time.Duration
	took, cpu       time.Duration
}

// tell inserts documents at a steady rate while streams are open that all tell of each.
func (b *bench) tell(ctx context.Context, s watched, streams int) (r told, err error) {
	if err := s.reset(ctx, layout{}); err != nil {
		return r, err
	}
	all, done, err := follow(ctx, s, streams, bson.D{})
	if done != nil {
		defer func() { err = errors.Join(err, done()) }()
	}
	if err != nil {
		return r, err
	}
	profiled, err := s.profiles(ctx, b, fmt.Sprintf("%s-%d", streamsRow, streams))
	if err != nil {
		return r, err
	}
	used, err := s.cpu()
	if err != nil {
		return r, err
	}
	begun := time.Now()
	each := make([][]time.Duration, streams)
	inserts := make([][]time.Duration, toldClients)
	var inserted atomic.Int64
	var reading sync.WaitGroup
	failed := make([]error, streams)
	stop := make(chan struct{})
	for i, f := range all {
		reading.Go(func() {
			stopped := false
			for failed[i] == nil && !(stopped && int64(len(each[i])) == inserted.Load()) {
				_, failed[i] = f.next(func(e bson.Raw) error {
					at, ok := e.Lookup("fullDocument", "at").AsInt64OK()
					if !ok {
						return errWrong
					}
					each[i] = append(each[i], time.Since(begun)-time.Duration(at))
					return nil
				})
				select {
				case <-stop:
					stopped = true
				default:
				}
			}
		})
	}
	last := max(b.o.Duration, time.Second)
	err = parallel(toldClients, func(client int) error {
		const pause = time.Second * toldClients / toldPerSecond
		for turn := time.Duration(client) * pause / toldClients; turn < last; turn += pause {
			time.Sleep(turn - time.Since(begun))
			at := time.Since(begun)
			if _, err := s.documents().InsertOne(ctx, bson.D{{Key: "_id", Value: inserted.Add(1)}, {Key: "at", Value: int64(at)}, {Key: "pad", Value: padding}}); err != nil {
				return err
			}
			inserts[client] = append(inserts[client], time.Since(begun)-at)
		}
		return nil
	})
	close(stop)
	if err != nil {
		return r, err // the streams end with their client
	}
	reading.Wait()
	r.took = time.Since(begun)
	after, err := s.cpu()
	r.cpu, r.inserts, r.events = after-used, slices.Concat(inserts...), slices.Concat(each...)
	return r, errors.Join(append(failed, err, profiled())...)
}

// followInserts measures how fast one stream follows an insertMany of several clients, and
// how fast it catches up with what was written before it was opened.
func (b *bench) followInserts(ctx context.Context, s *replicaSet, name string) error {
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%s\tinserts/s\tevents/s\tbehind at the end\t\n", name)
	alone, _, _, err := b.insertFor(ctx, s)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "insertMany alone\t%.0f\t\t\t\n", alone)
	start, err := s.operationTime(ctx)
	if err != nil {
		return err
	}
	all, done, err := follow(ctx, s, 1, bson.D{})
	if err != nil {
		return err
	}
	defer done()
	var events atomic.Int64
	reading := make(chan error, 1)
	var total atomic.Int64
	total.Store(-1)
	go func() { reading <- all[0].count(&events, &total) }()
	begun := time.Now()
	rate, n, _, err := b.insertFor(ctx, s)
	if err != nil {
		return err
	}
	behind := n - events.Load()
	total.Store(n)
	if err := <-reading; err != nil {
		return err
	}
	fmt.Fprintf(w, "followed\t%.0f\t%.0f\t%d\t\n", rate, float64(n)/time.Since(begun).Seconds(), behind)
	again, doneAgain, err := follow(ctx, s, 1, doc("startAtOperationTime", start))
	if err != nil {
		return err
	}
	defer doneAgain()
	profiled, err := b.profileSet(ctx, s, fmt.Sprintf("%s-behind-of-%d", streamsRow, len(s.members)))
	if err != nil {
		return err
	}
	events.Store(0)
	begun = time.Now()
	if err := again[0].count(&events, &total); err != nil {
		return err
	}
	fmt.Fprintf(w, "caught up\t\t%.0f\t\t\n", float64(n)/time.Since(begun).Seconds())
	return errors.Join(profiled(), w.Flush())
}

// count counts events until there are as many as total says, once that is not negative.
func (f *follower) count(events, total *atomic.Int64) error {
	for t := total.Load(); t < 0 || events.Load() < t; t = total.Load() {
		n, err := f.next(func(bson.Raw) error { return nil })
		if err != nil {
			return err
		}
		events.Add(int64(n))
	}
	return nil
}

// insertFor runs insertMany for a while, and returns how many documents a second it made.
func (b *bench) insertFor(ctx context.Context, s *replicaSet) (perSecond float64, n int64, took time.Duration, err error) {
	first := time.Now().UnixNano() // ids that were not there
	var inserted atomic.Int64
	begun := time.Now()
	end := followedSeconds * b.o.Duration
	err = parallel(toldClients, func(int) error {
		w, err := s.worker(ctx)
		if err != nil {
			return err
		}
		defer w.close()
		for time.Since(begun) < end {
			if err := w.insertMany(ctx, first+inserted.Add(manyDocuments), manyDocuments, never); err != nil {
				return err
			}
		}
		return nil
	})
	took = time.Since(begun)
	return float64(inserted.Load()) / took.Seconds(), inserted.Load(), took, err
}

// operationTime is the set's cluster time now.
func (s *replicaSet) operationTime(ctx context.Context) (at bson.Timestamp, err error) {
	r, err := s.client.Database("admin").RunCommand(ctx, doc("ping", 1)).Raw()
	if err != nil {
		return at, err
	}
	at.T, at.I = r.Lookup("operationTime").Timestamp()
	at.I++
	return at, nil
}

// followExpiry measures how fast a stream tells of documents that expire as ranges.
func (b *bench) followExpiry(ctx context.Context, s *replicaSet, name string) error {
	if err := fillDue(ctx, s, layout{Due: true}, liveDocuments, b.o.ExpiryDocuments); err != nil {
		return err
	}
	if err := settled(ctx, s); err != nil {
		return err
	}
	all, done, err := follow(ctx, s, 1, bson.D{})
	if err != nil {
		return err
	}
	defer done()
	profiled, err := b.profileSet(ctx, s, fmt.Sprintf("%s-expiry-of-%d", streamsRow, len(s.members)))
	if err != nil {
		return err
	}
	used, err := s.cpu()
	if err != nil {
		return err
	}
	var events, total atomic.Int64
	total.Store(b.o.ExpiryDocuments)
	first := make(chan time.Time, 1)
	reading := make(chan error, 1)
	go func() {
		n, err := 0, error(nil)
		for n == 0 && err == nil {
			n, err = all[0].next(func(bson.Raw) error { return nil })
		}
		first <- time.Now()
		events.Store(int64(n))
		if err == nil {
			err = all[0].count(&events, &total)
		}
		reading <- err
	}()
	removing, err := timedRemoval(ctx, s, b.o.ExpiryDocuments)
	if err != nil {
		return err
	}
	if err := <-reading; err != nil {
		return err
	}
	telling := time.Since(<-first)
	after, err := s.cpu()
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%s: %d documents expire as ranges\tremoved/s\ttold/s\tcpu/doc\t\n", name, b.o.ExpiryDocuments)
	fmt.Fprintf(w, "a stream is open\t%.0f\t%.0f\t%s\t\n", float64(b.o.ExpiryDocuments)/removing.Seconds(), float64(b.o.ExpiryDocuments)/telling.Seconds(),
		micros((after-used)/time.Duration(b.o.ExpiryDocuments)))
	return errors.Join(profiled(), w.Flush())
}
