package command

import (
	"context"
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/storage"
)

// ReadConcern says how durable the data that a command reads must be.
type ReadConcern struct {
	// Level is "local", "available", "majority", "linearizable" or "snapshot"; ""
	// where the client gave none, which means local.
	Level string
	// AfterClusterTime and AtClusterTime are timestamps, 0 for none.
	AfterClusterTime, AtClusterTime uint64
}

// WriteConcern is what a command that writes waits for before it answers.
type WriteConcern struct {
	// W is the number of members that must have the write; Mode, where not "", is
	// used instead ("majority").
	W    int
	Mode string
	// Journal says to wait until the log is on disk.
	Journal bool
	// WTimeout bounds the waiting, in milliseconds; 0 for no bound.
	WTimeout int64
	// Given says that the client gave a write concern.
	Given bool
	// Tags, if not nil, is used instead of W: of each tag, so many different values
	// among the members that have the write.
	Tags []repl.ModeTag
	// Provenance says where it came from: "clientSupplied", "customDefault",
	// "implicitDefault".
	Provenance string

	hasW, hasJournal bool
}

// Unacknowledged says that the client does not want to know the outcome of the write:
// the write commands then leave counts and errors out of their replies.
func (w WriteConcern) Unacknowledged() bool {
	return w.Given && w.W == 0 && w.Mode == "" && w.Tags == nil && !w.Journal
}

// Durability is what a commit waits for on this member's disk. A standalone is its own
// majority, which means the journal.
func (w WriteConcern) Durability() storage.Durability {
	if w.Journal || w.Mode == repl.Majority {
		return storage.Journaled
	}
	return storage.Buffered
}

var provenances = []string{
	"clientSupplied", "implicitDefault", "customDefault", "getLastErrorDefaults", "internalWriteDefault",
}

var readConcernFields = NewFields("readConcern",
	Enum("level", "local", "majority", "linearizable", "available", "snapshot"),
	Timestamp("afterOpTime"), Timestamp("afterClusterTime").Nullable(), Timestamp("atClusterTime").Nullable(),
	Ignored("allowTransactionTableSnapshot"), Ignored("waitLastStableRecoveryTimestamp"), Enum("provenance", provenances...))

// maxMembers is the largest number that w may be.
const maxMembers = 50

// readConcern checks op's read concern.
func (op *Op) readConcern() error {
	v := op.Generic.ReadConcern
	if v.IsMissing() {
		return nil
	}
	a, err := ParseDoc(readConcernFields, v.Doc())
	if err != nil {
		return err
	}
	rc := ReadConcern{Level: a.Str("level")}
	for _, f := range []struct {
		name string
		into *uint64
	}{{"afterClusterTime", &rc.AfterClusterTime}, {"atClusterTime", &rc.AtClusterTime}} {
		switch v := a.Value(f.name); v.Type {
		case bson.Missing:
		case bson.TypeTimestamp:
			if *f.into = v.Timestamp(); *f.into>>32 == 0 {
				return mongoerr.New(mongoerr.InvalidOptions, "%s cannot be a null timestamp", f.name)
			}
		default:
			return mongoerr.New(mongoerr.TypeMismatch, "\"%s\" had the wrong type. Expected timestamp, found %s", f.name, v.Type)
		}
	}
	if rc.AtClusterTime != 0 && rc.Level != "snapshot" {
		return mongoerr.New(mongoerr.InvalidOptions, "readConcern atClusterTime is only allowed with readConcern level snapshot")
	}
	if err := op.supports(rc.Level); err != nil {
		return mongoerr.New(mongoerr.InvalidOptions,
			"Command %s does not support this readConcern. The current readConcern: %s :: caused by :: %s",
			op.Command.Name, v.Doc(), mongoerr.From(err).Message)
	}
	check := rc.member
	if !op.Dispatcher.replicated() {
		check = rc.standalone
	}
	if err := check(); err != nil {
		return err
	}
	op.ReadConcern = rc
	return nil
}

var errNoSnapshot = mongoerr.New(mongoerr.InvalidOptions, "read concern snapshot not supported")

var errNoReadConcern = mongoerr.New(mongoerr.InvalidOptions, "read concern not supported")

// supports returns an error if op's command does not support a read concern.
func (op *Op) supports(level string) error {
	switch c := op.Command; {
	case op.Generic.HasStart:
		if level == "available" || level == "linearizable" {
			return mongoerr.New(mongoerr.InvalidOptions, "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to run in a transaction")
		}
		return nil
	case level == "" || level == "local":
		return nil
	case c.Flags&TakesReadConcern == 0:
		return errNoReadConcern
	case level == "snapshot" && c.Flags&TakesSnapshot == 0:
		return errNoSnapshot
	case c.CheckReadConcern != nil:
		return c.CheckReadConcern(op, level)
	}
	return nil
}

// standalone rejects read concerns that need a replica set.
func (rc ReadConcern) standalone() error {
	switch {
	case rc.Level == "snapshot":
		return mongoerr.New(mongoerr.NotAReplicaSet, "node needs to be a replica set member to use readConcern: snapshot")
	case rc.Level == "linearizable":
		return mongoerr.New(mongoerr.NotAReplicaSet, "node needs to be a replica set member to use read concern")
	case rc.AfterClusterTime != 0:
		return mongoerr.New(mongoerr.IllegalOperation, "Cannot specify afterClusterTime readConcern without replication enabled")
	}
	return nil
}

// member rejects read concerns that no member of a replica set can serve.
func (rc ReadConcern) member() error {
	switch {
	case rc.AfterClusterTime != 0 && rc.AtClusterTime != 0:
		return mongoerr.New(mongoerr.InvalidOptions, "Specifying both afterClusterTime and atClusterTime is not allowed")
	case rc.AfterClusterTime != 0 && (rc.Level == "linearizable" || rc.Level == "available"):
		return mongoerr.New(mongoerr.InvalidOptions, "afterClusterTime field can be set only if level is equal to majority, local, or snapshot")
	}
	return nil
}

var writeConcernFields = NewFields("writeConcern",
	Any("w"), SafeBool("j"), SafeBool("fsync"), Any("wtimeout"), Ignored("getLastError"),
	Ignored("wElectionId"), Ignored("wOpTime"), Enum("provenance", provenances...))

// customDefault is the provenance of a write concern that setDefaultRWConcern has set.
const customDefault = "customDefault"

// implicitWrite is the default write concern on a member.
var implicitWrite = WriteConcern{W: 1, Mode: repl.Majority, Provenance: "implicitDefault"}

// defaultWrite returns the write concern of a request without one.
func (d *Dispatcher) defaultWrite(ctx context.Context) WriteConcern {
	if d.replicated() && d.DefaultWrite != nil {
		if w := d.DefaultWrite(ctx); w != nil {
			return *w
		}
	}
	if d.Member == nil { // a router leaves the implicit one to the shards
		return WriteConcern{W: 1}
	}
	return implicitWrite
}

// tellShards has op's body say the write concern that it takes, or the w of it, from the
// router's default: shards do not know that.
func (op *Op) tellShards() {
	if op.Dispatcher.Member != nil || !op.Dispatcher.replicated() || op.InTransaction() && !op.endsTransaction() {
		return
	}
	var b bson.Builder
	for name, v := range op.Body.All() {
		if name != "writeConcern" {
			b.Value(name, v)
		}
	}
	op.Body = b.Doc("writeConcern", op.WriteConcern.document()).Finish()
}

// writeConcern checks op's write concern.
func (op *Op) writeConcern(ctx context.Context) error {
	op.WriteConcern = WriteConcern{W: 1}
	if op.Command.Flags&TakesWriteConcern != 0 {
		op.WriteConcern = op.Dispatcher.defaultWrite(ctx)
	}
	v := op.Generic.WriteConcern
	if v.IsMissing() {
		if op.WriteConcern.Provenance == customDefault {
			op.tellShards()
		}
		return nil
	}
	if op.Command.Flags&TakesWriteConcern == 0 {
		return mongoerr.New(mongoerr.InvalidOptions, "Command %s does not support writeConcern", op.Command.Name)
	}
	wc, err := ParseWriteConcern(v.Doc())
	if err != nil {
		return err
	}
	if !op.Dispatcher.replicated() {
		switch {
		case wc.Mode != "" && wc.Mode != "majority":
			return mongoerr.New(mongoerr.BadValue, "cannot use non-majority 'w' mode \"%s\" when a host is not a member of a replica set", wc.modeName())
		case wc.Mode == "" && wc.W > 1:
			return mongoerr.New(mongoerr.BadValue, "cannot use 'w' > 1 when a host is not replicated")
		}
	} else if !wc.hasW {
		d := op.Dispatcher.defaultWrite(ctx)
		wc.W, wc.Mode, wc.Tags = d.W, d.Mode, d.Tags
		if op.WriteConcern = wc; d.Provenance == customDefault {
			op.tellShards()
		}
	}
	op.WriteConcern = wc
	return nil
}

// noMode stands for the mode "", which a client can give but no set has.
const noMode = "\x00"

// CheckMode returns error 79 if w is the name of no mode of a configuration.
func (w WriteConcern) CheckMode(c *repl.Config) error {
	if w.Mode == "" {
		return nil
	}
	return c.CheckMode(w.modeName())
}

// HasW reports whether the write concern says w.
func (w WriteConcern) HasW() bool { return w.hasW }

func (w WriteConcern) modeName() string {
	if w.Mode == noMode {
		return ""
	}
	return w.Mode
}

// ParseWriteConcern reads a write concern.
func ParseWriteConcern(d bson.Doc) (WriteConcern, error) {
	wc := WriteConcern{W: 1, Given: !d.IsEmpty(), Provenance: "clientSupplied"}
	a, err := ParseDoc(writeConcernFields, d)
	if err != nil {
		return wc, err
	}
	if a.Has("provenance") { // of a router's default
		wc.Provenance = a.Str("provenance")
	}
	if a.Has("w") {
		if err := wc.parseW(a.Value("w")); err != nil {
			return wc, err
		}
	}
	wc.Journal, wc.hasJournal = a.Bool("j"), a.Has("j")
	if a.Bool("fsync") {
		if wc.Journal {
			return wc, mongoerr.New(mongoerr.FailedToParse, "fsync and j options cannot be used together")
		}
		wc.Journal = true
	}
	if v := a.Value("wtimeout"); v.IsNumber() {
		ms := bson.ClampToInt64(v)
		if ms > math.MaxInt32 {
			return wc, mongoerr.New(mongoerr.FailedToParse, "wtimeout must be a 32-bit integer")
		}
		wc.WTimeout = max(ms, 0)
	}
	return wc, nil
}

// ParseDefaultWrite reads a write concern that is the default of a set or a cluster.
func ParseDefaultWrite(d bson.Doc) (WriteConcern, error) {
	w, err := ParseWriteConcern(d)
	w.Given, w.Provenance = false, customDefault
	return w, err
}

func (w *WriteConcern) parseW(v bson.Value) (err error) {
	w.hasW = true
	switch {
	case v.IsNumber():
		n := bson.ClampToInt64(v)
		if f := bson.ToDouble(v); f != f || n < 0 || n > maxMembers {
			return mongoerr.New(mongoerr.FailedToParse, "w has to be a non-negative number and not greater than %d; found: %d", maxMembers, n)
		}
		w.W = int(n)
		return nil
	case v.Type == bson.TypeString:
		w.Mode = v.Str()
	case v.Type == bson.TypeNull:
	case v.Type == bson.TypeDocument:
		w.Tags, err = tags(v.Doc())
		return err
	default:
		return mongoerr.New(mongoerr.FailedToParse, "w has to be a number, string, or object; found: %s", v.Type)
	}
	if w.Mode == "" {
		w.Mode = noMode
	}
	return nil
}

// tags reads a w that counts members by tag. A standalone has every tag.
func tags(d bson.Doc) (all []repl.ModeTag, err error) {
	if d.IsEmpty() {
		return nil, mongoerr.New(mongoerr.FailedToParse, "tagged write concern requires tags")
	}
	for name, v := range d.All() {
		if !v.IsNumber() {
			return nil, mongoerr.New(mongoerr.FailedToParse, "tags must be a single level document with only number values; found: %s for tag %s", v.Type, name)
		}
		all = append(all, repl.ModeTag{Key: name, Count: int(bson.ClampToInt64(v))})
	}
	return all, nil
}
