package bench

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/wire"
)

// startHollow starts a process that speaks the protocol and has every answer
// ready, with a driver's client: the operations a second that this driver can
// have of any server on this machine.
func startHollow(ctx context.Context, dir, binary string) (*mayfly, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	m := &mayfly{port: port, padding: padding}
	if m.process, err = startProcess(exec.Command(binary, "-hollow-server", strconv.Itoa(port)), dir, "hollow"); err != nil {
		return nil, err
	}
	if err := m.process.listening(ctx, port); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, m.connect("mongodb://" + local(port))
}

// ServeHollow is the process: it answers on the port until it is killed.
func ServeHollow(port int) error {
	h := &hollow{document: bson.Doc(document(0, never, padding)), events: map[int]bson.Doc{}}
	for _, n := range hollowBatches {
		h.events[n] = events(n)
	}
	h.hundred = h.batch(rangeDocuments)
	return serveEach(port, h.answer)
}

// serveEach answers every connection to the port in a goroutine of its own.
func serveEach(port int, answer func(net.Conn) error) error {
	l, err := net.Listen("tcp", local(port))
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_ = answer(c) // ends with the client
		}()
	}
}

// hollow has no data, but answers as if it had.
type hollow struct {
	document bson.Doc
	events   map[int]bson.Doc // answers to getMores of change streams, by their batchSize
	hundred  bson.Doc         // the answer to a find of so many
}

func (h *hollow) answer(c net.Conn) error {
	r := wire.NewReader(c)
	for id := int32(1); ; id++ {
		f, err := r.Next()
		if err != nil {
			return err
		}
		m, err := wire.Parse(f)
		if err != nil {
			return err
		}
		if _, err := wire.Write(c, m.Answer(id, h.reply(m))); err != nil {
			return err
		}
	}
}

// reply is what a server answers to the commands of the rows that finds all it
// is asked for.
func (h *hollow) reply(m *wire.Message) bson.Doc {
	name, _ := m.Body.First()
	b := new(bson.Builder)
	switch name {
	case "hello", "isMaster", "ismaster":
		// As a router: drivers have transactions with no standalone.
		b.String("msg", "isdbgrid").Bool("isWritablePrimary", true).Bool("ismaster", true).Bool("helloOk", true).Int32("maxBsonObjectSize", bson.MaxDocumentSize).
			Int32("maxMessageSizeBytes", wire.MaxMessageSize).Int32("maxWriteBatchSize", maxWriteBatch).
			Int32("logicalSessionTimeoutMinutes", sessionMinutes).Int32("minWireVersion", 0).Int32("maxWireVersion", wireVersion)
	case "insert":
		b.Int32("n", int32(m.Sequences[0].Len()))
	case "update":
		b.Int32("n", 1).Int32("nModified", 1)
	case "delete":
		b.Int32("n", 1)
	case "aggregate":
		b.OpenDoc("cursor").OpenArray("firstBatch").Close().Int64("id", 1).String("ns", "bench.documents").Close()
	case "getMore":
		return h.events[int(m.Body.Lookup("batchSize").Int64())]
	case "find":
		filter := m.Body.Lookup("filter").Doc()
		switch id := filter.Lookup("_id"); id.Type {
		case bson.TypeInt64:
			return h.one(id.Int64())
		case bson.TypeDocument:
			return h.hundred
		}
		if filter.Lookup("k").Type == bson.TypeDocument {
			return h.hundred
		}
		return h.one(0)
	}
	return b.Double("ok", 1).Finish()
}

// What hello says, as the server does.
const (
	maxWriteBatch  = 100_000
	sessionMinutes = 30
	wireVersion    = 25
)

// one answers a find with the document of that id.
func (h *hollow) one(id int64) bson.Doc {
	return cursor(func(b *bson.Builder) { b.Doc("0", bson.Doc(document(id, never, padding))) })
}

// batch answers a find with n documents.
func (h *hollow) batch(n int) bson.Doc {
	return cursor(func(b *bson.Builder) {
		for i := range n {
			b.Doc(strconv.Itoa(i), h.document)
		}
	})
}

// hollowBatches are the batchSizes for which a getMore has an answer.
var hollowBatches = []int{1, 10, 20, 100}

// events is the answer to a getMore of a change stream with n events.
func events(n int) bson.Doc {
	b, e := new(bson.Builder), event()
	b.OpenDoc("cursor").OpenArray("nextBatch")
	for i := range n {
		b.Doc(strconv.Itoa(i), e)
	}
	return b.Close().OpenDoc("postBatchResumeToken").String("_data", hollowToken).Close().Int64("id", 1).String("ns", "bench.documents").Close().Double("ok", 1).Finish()
}

// hollowToken is as long as a token of an insert.
var hollowToken = strings.Repeat("0", 160)

// event is one of an insert of the row of streams.
func event() bson.Doc {
	return new(bson.Builder).OpenDoc("_id").String("_data", hollowToken).Close().String("operationType", "insert").Timestamp("clusterTime", 1).Date("wallTime", 1).
		OpenDoc("fullDocument").Int64("_id", 1).Int64("at", 1).String("pad", padding).Close().
		OpenDoc("ns").String("db", "bench").String("coll", "documents").Close().OpenDoc("documentKey").Int64("_id", 1).Close().Finish()
}

func cursor(documents func(*bson.Builder)) bson.Doc {
	b := new(bson.Builder)
	b.OpenDoc("cursor").OpenArray("firstBatch")
	documents(b)
	return b.Close().Int64("id", 0).String("ns", "bench.documents").Close().Double("ok", 1).Finish()
}
