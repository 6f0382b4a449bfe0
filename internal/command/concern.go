package command

import (
	"math"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// ReadConcern is how settled the data that a command reads must be.
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
	// Journal says to wait until the log is on the disk.
	Journal bool
	// WTimeout bounds the waiting, in milliseconds; 0 for no bound.
	WTimeout int64
	// Given says that the client gave a write concern.
	Given bool
}

// Unacknowledged says that the client wants no word of how the write went: the
// write commands then leave counts and errors out of their replies.
func (w WriteConcern) Unacknowledged() bool {
	return w.Given && w.W == 0 && w.Mode == "" && !w.Journal
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

// readConcern checks the read concern that op's client gave for c.
func (op *Op) readConcern(replicated bool) error {
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
	if !replicated {
		if err := rc.standalone(); err != nil {
			return err
		}
	}
	op.ReadConcern = rc
	return nil
}

var errNoReadConcern = mongoerr.New(mongoerr.InvalidOptions, "read concern not supported")

// supports says why op's command does not take a read concern, or returns nil.
func (op *Op) supports(level string) error {
	switch c := op.Command; {
	case level == "" || level == "local":
		return nil
	case c.Flags&TakesReadConcern == 0:
		return errNoReadConcern
	case c.CheckReadConcern != nil:
		return c.CheckReadConcern(op, level)
	}
	return nil
}

// standalone refuses what needs a replica set.
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

var writeConcernFields = NewFields("writeConcern",
	Any("w"), SafeBool("j"), SafeBool("fsync"), Any("wtimeout"), Ignored("getLastError"),
	Ignored("wElectionId"), Ignored("wOpTime"), Enum("provenance", provenances...))

// writeConcern checks the write concern that op's client gave.
func (op *Op) writeConcern(replicated bool) error {
	op.WriteConcern = WriteConcern{W: 1}
	v := op.Generic.WriteConcern
	if v.IsMissing() {
		return nil
	}
	if op.Command.Flags&TakesWriteConcern == 0 {
		return mongoerr.New(mongoerr.InvalidOptions, "Command %s does not support writeConcern", op.Command.Name)
	}
	wc, err := parseWriteConcern(v.Doc())
	if err != nil {
		return err
	}
	if !replicated {
		switch {
		case wc.Mode != "" && wc.Mode != "majority":
			return mongoerr.New(mongoerr.BadValue, "cannot use non-majority 'w' mode \"%s\" when a host is not a member of a replica set", wc.modeName())
		case wc.Mode == "" && wc.W > 1:
			return mongoerr.New(mongoerr.BadValue, "cannot use 'w' > 1 when a host is not replicated")
		}
	}
	op.WriteConcern = wc
	return nil
}

// noMode stands for the mode "" that a client can give but that means nothing.
const noMode = "\x00"

func (w WriteConcern) modeName() string {
	if w.Mode == noMode {
		return ""
	}
	return w.Mode
}

func parseWriteConcern(d bson.Doc) (WriteConcern, error) {
	wc := WriteConcern{W: 1, Given: !d.IsEmpty()}
	a, err := ParseDoc(writeConcernFields, d)
	if err != nil {
		return wc, err
	}
	if a.Has("w") {
		if err := wc.parseW(a.Value("w")); err != nil {
			return wc, err
		}
	}
	wc.Journal = a.Bool("j")
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

func (w *WriteConcern) parseW(v bson.Value) error {
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
		return tags(v.Doc())
	default:
		return mongoerr.New(mongoerr.FailedToParse, "w has to be a number, string, or object; found: %s", v.Type)
	}
	if w.Mode == "" {
		w.Mode = noMode
	}
	return nil
}

// tags checks a w that counts members by tag; a server alone has every tag.
func tags(d bson.Doc) error {
	if d.IsEmpty() {
		return mongoerr.New(mongoerr.FailedToParse, "tagged write concern requires tags")
	}
	for name, v := range d.All() {
		if !v.IsNumber() {
			return mongoerr.New(mongoerr.FailedToParse, "tags must be a single level document with only number values; found: %s for tag %s", v.Type, name)
		}
	}
	return nil
}
