package nemesis

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/sim"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
)

const (
	registerClients = 5
	// registersAtOnce are in use; one that has had so many operations, or so many whose
	// outcome nobody knows, is followed by another: what they could have done in which
	// order grows without bound.
	registersAtOnce  = 3
	registerMost     = 200
	registerUnknown  = 5
	registerJudgment = 20 * time.Second
)

// registers has clients read, write, and compare and set (findAndModify) documents of one
// value, and demands that the answers are linearizable.
type registers struct {
	reads  *mongo.Collection // read concern linearizable
	writes *mongo.Collection
	value  atomic.Int64
	begun  time.Time

	mu       sync.Mutex
	history  []sim.RegisterOp
	current  [registersAtOnce]register
	next     int
	failures failures
}

// register is one in use.
type register struct {
	key, ops, unknown int
	seen              int // a value that it had
}

func newRegisters(s *set) *registers {
	db := s.connect().Database("app")
	return &registers{writes: db.Collection("registers"), reads: db.Collection("registers", options.Collection().SetReadConcern(readconcern.Linearizable())),
		begun: time.Now(), failures: failures{}}
}

func (g *registers) run(ctx context.Context) {
	clients(ctx, registerClients, func(ctx context.Context, client int) {
		op := g.choose(client)
		op.Call = time.Since(g.begun).Nanoseconds()
		err := g.do(ctx, &op)
		op.Return = time.Since(g.begun).Nanoseconds()
		g.note(op, err)
	})
}

// choose decides what to do.
func (g *registers) choose(client int) sim.RegisterOp {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := &g.current[rand.IntN(registersAtOnce)]
	if r.key == 0 || r.ops >= registerMost || r.unknown >= registerUnknown {
		g.next++
		*r = register{key: g.next}
	}
	r.ops++
	op := sim.RegisterOp{Client: client, Key: r.key}
	switch rand.IntN(3) {
	case 0:
		op.Kind = sim.Read
	case 1:
		op.Kind, op.To = sim.Write, int(g.value.Add(1))
	default:
		op.Kind, op.From, op.To = sim.Swap, r.seen, int(g.value.Add(1))
		if op.From == 0 { // the document may not be there yet
			op.Kind = sim.Write
		}
	}
	return op
}

func (g *registers) do(ctx context.Context, op *sim.RegisterOp) (err error) {
	set := bson.D{{Key: "$set", Value: bson.D{{Key: "v", Value: op.To}}}}
	switch op.Kind {
	case sim.Read:
		var d struct{ V int }
		if err = g.reads.FindOne(ctx, bson.D{{Key: "_id", Value: op.Key}}).Decode(&d); errors.Is(err, mongo.ErrNoDocuments) {
			err = nil
		}
		op.Value = d.V
	case sim.Write:
		_, err = g.writes.UpdateOne(ctx, bson.D{{Key: "_id", Value: op.Key}}, set, options.UpdateOne().SetUpsert(true))
	case sim.Swap:
		err = g.writes.FindOneAndUpdate(ctx, bson.D{{Key: "_id", Value: op.Key}, {Key: "v", Value: op.From}}, set).Err()
		op.Swapped = err == nil
		if errors.Is(err, mongo.ErrNoDocuments) {
			err = nil
		}
	}
	return err
}

func (g *registers) note(op sim.RegisterOp, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r := &g.current[0]
	for i := range g.current {
		if g.current[i].key == op.Key {
			r = &g.current[i]
		}
	}
	op.Unknown = err != nil
	switch {
	case err != nil:
		g.failures.note(err)
		if op.Kind == sim.Read {
			return
		}
		r.unknown++
	case op.Kind == sim.Read:
		r.seen = op.Value
	case op.Kind == sim.Write || op.Swapped:
		r.seen = op.To
	}
	g.history = append(g.history, op)
}

func (g *registers) check(t *testing.T) {
	for key := 1; key <= g.next; key++ { // all are read at the end
		op := sim.RegisterOp{Client: registerClients, Key: key, Kind: sim.Read, Call: time.Since(g.begun).Nanoseconds()}
		if err := g.do(t.Context(), &op); err != nil {
			t.Fatal(err)
		}
		op.Return = time.Since(g.begun).Nanoseconds()
		g.history = append(g.history, op)
	}
	unknown := 0
	for _, op := range g.history {
		if op.Unknown {
			unknown++
		}
	}
	t.Logf("registers: %d operations on %d registers, %d with an unknown outcome; errors: %v", len(g.history), g.next, unknown, g.failures)
	if err := sim.CheckRegisters(g.history, registerJudgment+*duration/10); err != nil {
		t.Error(err)
	}
	if len(g.history)-unknown < registerMost {
		t.Error("registers: too few outcomes are known")
	}
}
