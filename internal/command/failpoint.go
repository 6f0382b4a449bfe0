package command

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// FailPoint is the fail point "failCommand", with which tests of drivers make
// commands fail, or where Writes is set "onPrimaryTransactionalWrite", with which they
// make the statements of retryable writes fail. (MongoDB: command configureFailPoint,
// on servers started with enableTestCommands.) The zero value is off.
type FailPoint struct {
	Writes bool
	// GetMores makes it the fail point "failGetMoreAfterCursorCheckout".
	GetMores bool

	mu      sync.Mutex
	mode    failMode
	left    int64   // of failModeTimes and failModeSkip
	chance  float64 // of failModeChance
	entered int64
	data    failure
}

type failMode uint8

const (
	failModeOff failMode = iota
	failModeAlways
	failModeTimes
	failModeSkip
	failModeChance
)

// failure is the effect of the fail point on matching commands.
type failure struct {
	commands     []string
	all          bool // for all commands
	app          string
	namespace    string
	code         mongoerr.Code
	close        bool
	before       mongoerr.Code // returned instead of executing the command; 0 for none
	block        time.Duration
	labels       []string
	labelled     bool
	writeConcern bson.Doc
}

// failPointCommand is the one command that never fails.
const failPointCommand = "configureFailPoint"

// maxFailPointBlock bounds blockTimeMS.
const maxFailPointBlock = 24 * time.Hour

// errFailPointClose makes the front end close the connection without a reply.
var errFailPointClose = error(mongoerr.New(mongoerr.SocketException, "the fail point closes the connection"))

// Configure sets mode and data as the command has them, and returns how often
// the fail point was entered before.
func (f *FailPoint) Configure(mode bson.Value, data bson.Doc) (entered int64, err error) {
	next := FailPoint{data: failure{all: f.Writes || f.GetMores, close: f.Writes}}
	if err := next.parseMode(mode); err != nil {
		return 0, err
	}
	// The names outlive the request, whose bytes they share.
	if err := next.data.parse(data.Clone()); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode, f.left, f.chance, f.data = next.mode, next.left, next.chance, next.data
	return f.entered, nil
}

func (f *FailPoint) parseMode(mode bson.Value) error {
	switch mode.Type {
	case bson.Missing:
		return mongoerr.New(mongoerr.IllegalOperation, "When setting a failpoint, you must supply a 'mode'")
	case bson.TypeString:
		switch mode.Str() {
		case "off":
			f.mode = failModeOff
		case "alwaysOn":
			f.mode = failModeAlways
		default:
			return mongoerr.New(mongoerr.BadValue, "unknown mode: %s", mode.Str())
		}
		return nil
	case bson.TypeDocument:
		return f.parseLimit(mode.Doc())
	}
	return mongoerr.New(mongoerr.TypeMismatch, "'mode' must be a string or JSON object")
}

func (f *FailPoint) parseLimit(d bson.Doc) error {
	name, v := d.First()
	switch name {
	case "times", "skip":
		n, exact := bson.ExactInt64(v)
		if !v.IsNumber() || !exact || n < 0 {
			return mongoerr.New(mongoerr.BadValue, "'%s' option to 'mode' must be positive", name)
		}
		f.mode, f.left = failModeTimes, n
		if name == "skip" {
			f.mode = failModeSkip
		}
	case "activationProbability":
		f.mode, f.chance = failModeChance, bson.ToDouble(v)
		if !v.IsNumber() || f.chance < 0 || f.chance > 1 {
			return mongoerr.New(mongoerr.BadValue, "activationProbability must be between 0.0 and 1.0; found %s", v)
		}
	default:
		return mongoerr.New(mongoerr.BadValue, "invalid option for 'mode': %s", d)
	}
	return nil
}

// failureTypes has the types of the fields that are neither numbers nor booleans.
var failureTypes = map[string]bson.Type{
	"failCommands": bson.TypeArray, "appName": bson.TypeString, "namespace": bson.TypeString,
	"errorLabels": bson.TypeArray, "writeConcernError": bson.TypeDocument,
}

// parse reads the data of failCommand, whose bytes it keeps. Fields of other
// fail points are no error on the server either.
func (f *failure) parse(d bson.Doc) error {
	for it := d.Iter(); it.Next(); {
		if want, ok := failureTypes[it.Key]; ok && it.Value.Type != want {
			return mongoerr.New(mongoerr.TypeMismatch, "'%s' must be of type %s, found %s", it.Key, want, it.Value.Type)
		}
		switch v := it.Value; it.Key {
		case "failCommands":
			for _, name := range v.Doc().Slice() {
				if name.Type == bson.TypeString {
					f.commands = append(f.commands, name.Str())
				}
			}
		case "failAllCommands":
			f.all = v.Truthy()
		case "appName":
			f.app = v.Str()
		case "namespace":
			f.namespace = v.Str()
		case "failBeforeCommitExceptionCode":
			f.before = mongoerr.Code(bson.ClampToInt64(v))
		case "errorCode":
			f.code = mongoerr.Code(bson.ClampToInt64(v))
		case "closeConnection":
			f.close = v.Truthy()
		case "blockConnection":
			if v.Truthy() {
				ms := bson.ClampToInt64(d.Lookup("blockTimeMS"))
				f.block = min(time.Duration(max(ms, 0))*time.Millisecond, maxFailPointBlock)
			}
		case "errorLabels":
			f.labelled = true
			for _, label := range v.Doc().Slice() {
				if label.Type == bson.TypeString {
					f.labels = append(f.labels, label.Str())
				}
			}
		case "writeConcernError":
			f.writeConcern = v.Doc()
		}
	}
	return nil
}

// appName returns the appName of op's client, also during the hello that sets it.
func appName(op *Op) string {
	if name := op.Client.AppName(); name != "" {
		return name
	}
	d := op.Body
	for _, field := range []string{"client", "application"} {
		v := d.Lookup(field)
		if v.Type != bson.TypeDocument {
			return ""
		}
		d = v.Doc()
	}
	if v := d.Lookup("name"); v.Type == bson.TypeString {
		return v.Str()
	}
	return ""
}

// chooses reports whether the failure applies to op.
func (f *failure) chooses(op *Op) bool {
	if op.Command.Name == failPointCommand || f.app != "" && f.app != appName(op) || f.namespace != "" && f.namespace != op.NS {
		return false
	}
	return f.all || slices.ContainsFunc(f.commands, func(name string) bool {
		return name == op.Command.Name || slices.Contains(op.Command.Aliases, name)
	})
}

// hit reports whether the fail point is on for op, and returns its failure.
func (f *FailPoint) hit(op *Op) (failure, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mode == failModeOff || !f.data.chooses(op) {
		return failure{}, false
	}
	switch f.mode {
	case failModeTimes:
		if f.left == 0 {
			f.mode = failModeOff
			return failure{}, false
		}
		f.left--
	case failModeSkip:
		if f.left > 0 {
			f.left--
			return failure{}, false
		}
	case failModeChance:
		if rand.Float64() >= f.chance {
			return failure{}, false
		}
	}
	f.entered++
	return f.data, true
}

// apply applies the fail point to op: it waits, returns an error, or adds a write
// concern error to the reply.
func (f *FailPoint) apply(ctx context.Context, op *Op) error {
	fail, on := f.hit(op)
	if !on {
		return nil
	}
	if fail.block > 0 {
		timer := time.NewTimer(fail.block)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return interruption(ctx)
		}
	}
	op.injected = &fail
	switch {
	case fail.close:
		return errFailPointClose
	case fail.code != 0:
		return mongoerr.New(fail.code, "Failing command via 'failCommand' failpoint").WithLabels(fail.labels...)
	}
	return nil
}

// inject adds the fail point's write concern error and labels to the reply of a command
// that succeeded.
func (op *Op) inject() {
	f := op.injected
	if f == nil {
		return
	}
	if f.writeConcern != nil {
		op.unmet = nil
		op.Reply.Doc("writeConcernError", f.writeConcern)
	}
	switch {
	case f.labelled:
		op.Reply.Strings("errorLabels", f.labels...)
	case f.writeConcern != nil && op.Dispatcher.Member != nil && (!op.InTransaction() || op.endsTransaction()):
		op.appendLabels(mongoerr.New(mongoerr.Code(bson.ClampToInt64(f.writeConcern.Lookup("code"))), ""))
	}
}
