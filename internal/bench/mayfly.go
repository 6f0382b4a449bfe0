package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// mayfly is a server process on a directory of its own, and a driver's client.
type mayfly struct {
	process   *process
	client    *mongo.Client
	plain     *mongo.Collection
	journaled *mongo.Collection
	admin     int // port of its profiles
	cosmos    int // port of the Cosmos DB endpoint
	dir       string
	port      int
	args      []string       // the command
	set       map[string]any // parameters that were set since it was started first
	padding   string         // of documents
	mixed     bool           // each has another one
	unordered bool           // an insertMany is: a router asks all shards at the same time
}

// startMayfly starts a standalone with its Cosmos DB endpoint.
func startMayfly(ctx context.Context, dir string, o *Options) (*mayfly, error) {
	cosmos, err := freePort()
	if err != nil {
		return nil, err
	}
	m, err := startServer(ctx, dir, "mayfly", o, "--cosmos", "--cosmosPort", strconv.Itoa(cosmos), "--cosmosTls", "off",
		"--setParameter", "archivePlaces="+archivePlace(dir), "--setParameter", "ttlMonitorEnabled=false", "--setParameter", "ttlMonitorSleepSecs=1")
	if err != nil {
		return nil, err
	}
	m.cosmos = cosmos
	return m, m.connect("mongodb://" + local(m.port))
}

// startServer starts a server, with options in addition to the usual ones, on a directory of
// this name.
func startServer(ctx context.Context, dir, name string, o *Options, more ...string) (*mayfly, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	admin, err := freePort()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, name)
	args := append([]string{o.Binary, "serve", "--dbpath", data, "--port", strconv.Itoa(port), "--nounixsocket", "--adminPprof", "--adminPort", strconv.Itoa(admin),
		"--cacheSizeGB", strconv.FormatFloat(o.CacheGB, 'f', -1, 64)}, more...)
	for _, p := range o.SetParameters {
		args = append(args, "--setParameter", p)
	}
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, err
	}
	m := &mayfly{admin: admin, dir: data, port: port, args: args}
	return m, m.run(ctx)
}

// connect makes the driver's client.
func (m *mayfly) connect(uri string) (err error) {
	if m.client, err = mongo.Connect(options.Client().ApplyURI(uri)); err != nil {
		return err
	}
	m.plain = m.collection("documents")
	m.journaled = m.collection("documents", options.Collection().SetWriteConcern(writeconcern.Journaled()))
	return nil
}

// run starts the process.
func (m *mayfly) run(ctx context.Context) (err error) {
	if m.process, err = startProcess(exec.Command(m.args[0], m.args[1:]...), filepath.Dir(m.dir), filepath.Base(m.dir)); err != nil {
		return err
	}
	if err := m.process.listening(ctx, m.port); err != nil {
		return errors.Join(err, m.close())
	}
	return nil
}

// restart ends the process and starts it again, with the parameters that were set,
// after which only tables hold the data.
func (m *mayfly) restart(ctx context.Context) error {
	if err := m.process.stop(syscall.SIGTERM); err != nil {
		return err
	}
	if err := m.run(ctx); err != nil {
		return err
	}
	for name, value := range m.set {
		if err := m.setParameter(ctx, name, value); err != nil {
			return err
		}
	}
	return nil
}

func (m *mayfly) setParameter(ctx context.Context, name string, value any) error {
	if m.set == nil {
		m.set = map[string]any{}
	}
	m.set[name] = value
	return m.client.Database("admin").RunCommand(ctx, bson.D{{Key: "setParameter", Value: 1}, {Key: name, Value: value}}).Err()
}

func (m *mayfly) collection(name string, opts ...options.Lister[options.CollectionOptions]) *mongo.Collection {
	return m.client.Database("bench").Collection(name, opts...)
}

func (m *mayfly) close() error {
	if m.client != nil {
		_ = m.client.Disconnect(context.Background()) // the server stops anyway
	}
	return m.process.stop(syscall.SIGTERM)
}

func (m *mayfly) cpu() (time.Duration, error) { return m.process.cpu() }

func (m *mayfly) reset(ctx context.Context, l layout) error {
	m.padding, m.mixed = l.padding(), l.Mixed
	if err := m.plain.Drop(ctx); err != nil {
		return err
	}
	if l.Immediate {
		expiry := doc("mayfly", doc("expiry", doc("visibility", "immediate")))
		if err := m.plain.Database().CreateCollection(ctx, m.plain.Name(), options.CreateCollection().SetStorageEngine(expiry)); err != nil {
			return err
		}
	}
	_, err := m.plain.Indexes().CreateMany(ctx, l.models())
	if err == nil && l.Archive {
		err = m.archives(ctx)
	}
	return err
}

// models are the indexes of the layout on a server, in addition to the one on _id.
func (l layout) models() []mongo.IndexModel {
	models := []mongo.IndexModel{{Keys: bson.D{{Key: "k", Value: 1}}}}
	if l.Due {
		models = append(models, mongo.IndexModel{Keys: bson.D{{Key: "due", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)})
	}
	if l.Hashed {
		models = append(models, mongo.IndexModel{Keys: bson.D{{Key: "_id", Value: "hashed"}}})
	}
	return models
}

// network returns the bytes that the server has read and written.
func (m *mayfly) network(ctx context.Context) (in, out int64, err error) {
	r, err := m.status(ctx)
	if err != nil {
		return 0, 0, err
	}
	return r.Lookup("network", "bytesIn").AsInt64(), r.Lookup("network", "bytesOut").AsInt64(), nil
}

func (m *mayfly) status(ctx context.Context) (bson.Raw, error) {
	return m.client.Database("admin").RunCommand(ctx, bson.D{{Key: "serverStatus", Value: 1}}).Raw()
}

// profile records where the server's processor time goes during d, in a file.
func (m *mayfly) profile(ctx context.Context, d time.Duration, file string) error {
	seconds := max(1, int(d.Seconds()))
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", local(m.admin), seconds)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s", r.Status)
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, r.Body)
	return errors.Join(err, out.Close())
}

// alwaysJournaled is the same server, with j: true on all writes.
func (m *mayfly) alwaysJournaled() *mayfly {
	j := *m
	j.plain = m.journaled
	return &j
}

func (m *mayfly) worker(context.Context) (worker, error) { return &mayflyWorker{m}, nil }

// mayflyWorker is one goroutine on the driver's client.
type mayflyWorker struct{ m *mayfly }

func (w *mayflyWorker) close() error { return nil }

func (w *mayflyWorker) collection(journaled bool) *mongo.Collection {
	if journaled {
		return w.m.journaled
	}
	return w.m.plain
}

func (w *mayflyWorker) insert(ctx context.Context, id int64, journaled bool) error {
	_, err := w.collection(journaled).InsertOne(ctx, document(id, never, w.m.padding))
	return err
}

func (w *mayflyWorker) insertMany(ctx context.Context, first int64, n int, due int64) error {
	return w.insertDue(ctx, first, slices.Repeat([]int64{due}, n))
}

func (w *mayflyWorker) insertDue(ctx context.Context, first int64, due []int64) error {
	docs := make([]any, len(due))
	for i := range docs {
		pad := w.m.padding
		if w.m.mixed {
			pad = mixedPadding(first+int64(i), len(pad))
		}
		docs[i] = document(first+int64(i), due[i], pad)
	}
	_, err := w.m.plain.InsertMany(ctx, docs, options.InsertMany().SetOrdered(!w.m.unordered))
	return err
}

func (w *mayflyWorker) touch(ctx context.Context, id, due int64) error {
	r, err := w.m.plain.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$set", Value: bson.D{{Key: "due", Value: bson.DateTime(due)}}}})
	if err == nil && r.ModifiedCount != 1 {
		return errWrong
	}
	return err
}

func (w *mayflyWorker) one(ctx context.Context, filter any, id int64) error {
	d, err := w.m.plain.FindOne(ctx, filter).Raw()
	if err != nil {
		return err
	}
	if id >= 0 && d.Lookup("_id").Int64() != id {
		return errWrong
	}
	return nil
}

func (w *mayflyWorker) find(ctx context.Context, id int64) error {
	return w.one(ctx, bson.D{{Key: "_id", Value: id}}, id)
}

func (w *mayflyWorker) findByKey(ctx context.Context, key int64) error {
	return w.one(ctx, bson.D{{Key: "k", Value: key}}, -1)
}

func (w *mayflyWorker) all(ctx context.Context, filter any, n int, opts ...options.Lister[options.FindOptions]) error {
	c, err := w.m.plain.Find(ctx, filter, opts...)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	found := 0
	for c.Next(ctx) {
		found++
	}
	if found != n && c.Err() == nil {
		return errWrong
	}
	return c.Err()
}

func (w *mayflyWorker) scan(ctx context.Context, id int64, n int) error {
	bounds := bson.D{{Key: "$gte", Value: id}, {Key: "$lt", Value: id + int64(n)}}
	return w.all(ctx, bson.D{{Key: "_id", Value: bounds}}, n)
}

func (w *mayflyWorker) scanByKey(ctx context.Context, key int64, n int) error {
	from := bson.D{{Key: "k", Value: bson.D{{Key: "$gte", Value: key}}}}
	return w.all(ctx, from, n, options.Find().SetSort(bson.D{{Key: "k", Value: 1}}).SetLimit(int64(n)))
}

func (w *mayflyWorker) increment(ctx context.Context, id int64, journaled bool) error {
	r, err := w.collection(journaled).UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: 1}}}})
	if err == nil && r.ModifiedCount != 1 {
		return errWrong
	}
	return err
}

func (w *mayflyWorker) remove(ctx context.Context, id int64) error {
	r, err := w.m.plain.DeleteOne(ctx, bson.D{{Key: "_id", Value: id}})
	if err == nil && r.DeletedCount != 1 {
		return errWrong
	}
	return err
}

// expire switches the TTL monitor on until it has removed total documents.
func (m *mayfly) expire(ctx context.Context, total int64, progress func(int64)) error {
	before, err := m.deleted(ctx)
	if err != nil {
		return err
	}
	if err := m.monitor(ctx, true); err != nil {
		return err
	}
	for {
		now, err := m.deleted(ctx)
		if err != nil {
			return err
		}
		gone := now - before
		if gone == 0 {
			busy, err := m.removing(ctx)
			if err != nil {
				return err
			}
			if busy {
				gone = 1 // it moves documents before it removes the first
			}
		}
		progress(gone)
		if now-before >= total {
			return m.monitor(ctx, false)
		}
		time.Sleep(pollEvery)
	}
}

// removing reports whether the TTL monitor is at work.
func (m *mayfly) removing(ctx context.Context) (bool, error) {
	c, err := m.client.Database("admin").Aggregate(ctx, bson.A{bson.D{{Key: "$currentOp", Value: bson.D{}}}, bson.D{{Key: "$match", Value: bson.D{{Key: "desc", Value: "TTLMonitor"}}}}})
	if err != nil {
		return false, err
	}
	defer c.Close(ctx)
	return c.Next(ctx), c.Err()
}

// pollEvery is how often the count of removed documents is read.
const pollEvery = 20 * time.Millisecond

func (m *mayfly) monitor(ctx context.Context, on bool) error {
	return m.setParameter(ctx, "ttlMonitorEnabled", on)
}

// deleted is how many documents the TTL monitor has removed so far.
func (m *mayfly) deleted(ctx context.Context) (int64, error) {
	r, err := m.status(ctx)
	if err != nil {
		return 0, err
	}
	return r.Lookup("metrics", "ttl", "deletedDocuments").AsInt64(), nil
}

// errWrong says that an operation did not find what is there.
var errWrong = errors.New("an operation has a wrong result")

// requests returns how many requests the server has had.
func (m *mayfly) requests(ctx context.Context) (int64, error) {
	r, err := m.status(ctx)
	return r.Lookup("network", "numRequests").AsInt64(), err
}
