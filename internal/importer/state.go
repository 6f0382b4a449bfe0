package importer

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// What an import knows is in these collections of the target.
const (
	ownDB        = "mayfly_import"
	stateColl    = "state"    // one document, stateID, and one for each session
	progressColl = "progress" // a row for each collection of the source
)

var stateID = bson.String("import")

// The phases of an import, in their order.
const (
	phaseDefine  = "define"  // the source's collections are listed
	phaseCopy    = "copy"    // rows are stored: what is copied and, but for --once, followed
	phaseCutOver = "cutover" // the source's writes are blocked
	phaseFinish  = "finish"  // verified: unique indexes, rules and users are made
	phaseDone    = "done"
)

// state is what the target's state says.
type state struct {
	id       bson.UUID
	importer int64
	source   string
	once     bool
	phase    string
	token    bson.Doc // of the stream
	cutOver  bool     // somebody has asked for it
	block    bool
	sessions []bson.UUID
}

// readState returns nil if there is none.
func readState(ctx context.Context, e *end) (*state, error) {
	docs, err := e.all(ctx, ownDB, new(bson.Builder).String("find", stateColl).OpenDoc("filter").Value("_id", stateID).Close().Finish())
	if err != nil || len(docs) == 0 {
		return nil, err
	}
	d := docs[0]
	s := &state{importer: bson.ClampToInt64(d.Lookup("importer")), once: d.Lookup("once").Truthy(), cutOver: d.Lookup("cutOver").Truthy(), block: d.Lookup("block").Truthy()}
	s.id, _ = uuidOf(d.Lookup("id"))
	if v := d.Lookup("source"); v.Type == bson.TypeString {
		s.source = v.Str()
	}
	if v := d.Lookup("phase"); v.Type == bson.TypeString {
		s.phase = v.Str()
	}
	if v := d.Lookup("token"); v.Type == bson.TypeDocument {
		s.token = v.Doc()
	}
	if v := d.Lookup("sessions"); v.Type == bson.TypeArray {
		for id := range v.Doc().Values() {
			if u, ok := uuidOf(id); ok {
				s.sessions = append(s.sessions, u)
			}
		}
	}
	return s, nil
}

// uuidOf reads a UUID.
func uuidOf(v bson.Value) (u bson.UUID, ok bool) {
	const header = 5 // length and subtype
	if v.Type != bson.TypeBinary || len(v.Data) != header+len(u) || v.Data[header-1] != 4 {
		return u, false
	}
	copy(u[:], v.Data[header:])
	return u, true
}

// identify returns what tells a source from others. Errors: a user who may not read that, as two
// sources of one name would be taken for one.
func identify(ctx context.Context, e *end) (string, error) {
	lacks := func(what string, err error) error {
		if mongoerr.Is(err, mongoerr.Unauthorized) {
			return fmt.Errorf("the source's user may not %s, which tells this source from another one of its name: give it the role clusterMonitor: %w", what, err)
		}
		return err
	}
	if e.router {
		docs, err := e.all(ctx, "config", new(bson.Builder).String("find", "version").Finish())
		if err != nil {
			return "", lacks("read config.version", err)
		}
		if len(docs) == 0 {
			return "", errors.New("the source's config.version is empty: it has to name the cluster")
		}
		return "cluster " + docs[0].Lookup("clusterId").String(), nil
	}
	if e.set == "" {
		return "standalone " + strings.Join(e.uri.Hosts, ","), nil
	}
	reply, err := e.run(ctx, "admin", new(bson.Builder).Int32("replSetGetConfig", 1).Finish())
	if err != nil {
		return "", lacks("run replSetGetConfig", err)
	}
	name := "set " + e.set
	if c := reply.Lookup("config"); c.Type == bson.TypeDocument {
		if s := c.Doc().Lookup("settings"); s.Type == bson.TypeDocument {
			if id := s.Doc().Lookup("replicaSetId"); id.Type == bson.TypeObjectID {
				oid := id.ObjectID()
				name += " " + hex.EncodeToString(oid[:])
			}
		}
	}
	return name, nil
}

// claim makes this importer the target's, and fences those before it (invariant one-importer).
func (im *Importer) claim(ctx context.Context) error {
	source, err := identify(ctx, im.from)
	if err != nil {
		return err
	}
	owner := bson.NewUUID()
	sessions := im.o.Parallel + 2 // the workers', the applier's, and that of the state
	for {
		s, err := readState(ctx, im.to)
		if err != nil {
			return err
		}
		if s == nil {
			if err := im.begin(ctx, source); err != nil {
				return err
			}
			continue
		}
		if s.source != source {
			return fmt.Errorf("the target is being imported to from another source (%s, and this is %s): drop its database %s to forget that", s.source, source, ownDB)
		}
		if s.once != im.o.Once {
			return errors.New("this import began with --once, or without it, and has to go on so")
		}
		for len(s.sessions) < sessions {
			s.sessions = append(s.sessions, bson.NewUUID())
		}
		b := new(bson.Builder).OpenDoc("q").Value("_id", stateID).Int64("importer", s.importer).Close().OpenDoc("u").OpenDoc("$set").
			Int64("importer", s.importer+1).Binary("owner", 4, owner[:]).OpenArray("sessions")
		for i, id := range s.sessions {
			b.Binary(bson.Index(i), 4, id[:])
		}
		u := b.Close().Close().Close().Finish()
		if _, err := im.to.ddl(ctx, ownDB, new(bson.Builder).String("update", stateColl).Array("updates", new(bson.Builder).Doc("0", u).Finish()).Finish()); err != nil {
			return err
		}
		docs, err := im.to.all(ctx, ownDB, new(bson.Builder).String("find", stateColl).OpenDoc("filter").Value("_id", stateID).Binary("owner", 4, owner[:]).Close().Finish())
		if err != nil {
			return err
		}
		if len(docs) == 1 {
			im.state, s.importer = s, s.importer+1
			return im.fence(ctx)
		}
	}
}

// begin stores the state of a new import.
func (im *Importer) begin(ctx context.Context, source string) error {
	id := bson.NewUUID()
	doc := new(bson.Builder).Value("_id", stateID).Binary("id", 4, id[:]).Int64("importer", 0).String("source", source).
		Bool("once", im.o.Once).String("phase", phaseDefine).Finish()
	reply, err := im.to.ddl(ctx, ownDB, new(bson.Builder).String("insert", stateColl).Array("documents", new(bson.Builder).Doc("0", doc).Finish()).Finish())
	if err != nil {
		return err
	}
	for _, e := range writeErrors(reply) {
		if e.Code != mongoerr.DuplicateKey {
			return e.Error
		}
	}
	other, err := readState(ctx, im.from)
	if err == nil && other != nil && other.id == id {
		_, err = im.to.ddl(ctx, ownDB, new(bson.Builder).String("drop", stateColl).Finish())
		return errors.Join(errors.New("the source and the target are the same"), err)
	}
	return err
}

// firstNumber is the number with which an importer fences its sessions.
func firstNumber(importer int64) int64 { return importer << 32 }

// fence writes once in each session, with a number above all of the importers before: that waits
// for a write that runs, and what comes later with a lower number is refused (invariant one-importer).
func (im *Importer) fence(ctx context.Context) error {
	im.hold = &hold{importer: im.state.importer}
	var writers []*writer
	for _, id := range im.state.sessions {
		w := &writer{to: im.to, hold: im.hold, id: id, number: firstNumber(im.state.importer) - 1}
		if err := w.set(ctx, stateColl, uuidValue(id), new(bson.Builder).Int64("importer", im.state.importer).Finish()); err != nil {
			return err
		}
		writers = append(writers, w)
	}
	im.main, im.applier, im.workers = writers[0], writers[1], writers[2:]
	return nil
}

// store stores fields of the state.
func (im *Importer) store(ctx context.Context, fields bson.Doc) error {
	return im.setState(ctx, im.main, fields)
}

// enter stores that a phase begins.
func (im *Importer) enter(ctx context.Context, phase string) error {
	if err := im.store(ctx, new(bson.Builder).String("phase", phase).Finish()); err != nil {
		return err
	}
	im.state.phase = phase
	return nil
}

// AskCutOver asks the import of a target to cut over.
func AskCutOver(ctx context.Context, o Options) error {
	e, err := openEnd(ctx, "the target", o.To)
	if err != nil {
		return err
	}
	defer e.close()
	s, err := readState(ctx, e)
	switch {
	case err != nil:
		return err
	case s == nil:
		return errors.New("nothing is imported to this target")
	case s.once:
		return errors.New("an import with --once has no cut-over of its own")
	}
	b := new(bson.Builder).Bool("cutOver", true)
	if o.Block {
		b.Bool("block", true)
	}
	u := new(bson.Builder).OpenDoc("q").Value("_id", stateID).Close().OpenDoc("u").Doc("$set", b.Finish()).Close().Finish()
	_, err = e.ddl(ctx, ownDB, new(bson.Builder).String("update", stateColl).Array("updates", new(bson.Builder).Doc("0", u).Finish()).Finish())
	return err
}

func uuidValue(u bson.UUID) bson.Value { return bson.Binary(4, u[:]) }
