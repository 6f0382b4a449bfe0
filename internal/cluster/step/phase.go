package step

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Phase is how far an operation is.
type Phase int32

// The phases. A document of config.operations has one of the first three.
const (
	Trying    Phase = 1 + iota // the requests of this phase can be undone
	Committed                  // config.* has the change, and the shards are being told
	Undone                     // the operation has failed, and the shards are undoing it
	Ended                      // all shards have answered, and the document is removed
)

var phaseNames = map[Phase]string{Trying: "trying", Committed: "committed", Undone: "undone", Ended: "ended"}

func (p Phase) String() string { return phaseNames[p] }

// Operation is a document of config.operations.
type Operation struct {
	// Number is its _id, greater than that of every earlier operation.
	Number    int64
	Kind      string
	Namespace string // or a database, or a shard
	Phase     Phase
	// Args are the arguments of the operation. Told is the result of the commit, which is
	// sent to the shards; nil before it.
	Args, Told bson.Doc
}

// Doc writes the document.
func (o *Operation) Doc() bson.Doc {
	b := new(bson.Builder).Int64("_id", o.Number).String("kind", o.Kind).String("ns", o.Namespace).Int32("phase", int32(o.Phase)).Doc("args", o.Args)
	if o.Told != nil {
		b.Doc("told", o.Told)
	}
	return b.Finish()
}

// Parse reads a document of config.operations. Errors: 2, with the document.
func Parse(d bson.Doc) (Operation, error) {
	id, kind, ns, phase, args, told := d.Lookup("_id"), d.Lookup("kind"), d.Lookup("ns"), d.Lookup("phase"), d.Lookup("args"), d.Lookup("told")
	ok := id.Type == bson.TypeInt64 && kind.Type == bson.TypeString && ns.Type == bson.TypeString && phase.Type == bson.TypeInt32 &&
		args.Type == bson.TypeDocument && (told.IsMissing() || told.Type == bson.TypeDocument)
	if !ok || plans[kind.Str()] == nil || phase.Int32() < int32(Trying) || phase.Int32() > int32(Undone) {
		return Operation{}, mongoerr.New(mongoerr.BadValue, "not an operation of a cluster: %s", d)
	}
	d = d.Clone()
	o := Operation{Number: id.Int64(), Kind: d.Lookup("kind").Str(), Namespace: d.Lookup("ns").Str(), Phase: Phase(phase.Int32()), Args: d.Lookup("args").Doc()}
	if told.Type == bson.TypeDocument {
		o.Told = d.Lookup("told").Doc()
	}
	return o, nil
}

// Shards are the shards that take part in the operation, sorted.
func (o *Operation) Shards() []string {
	var ids []string
	for _, name := range []string{"from", "to", "shard", "primary"} {
		if v := o.Args.Lookup(name); v.Type == bson.TypeString {
			ids = append(ids, v.Str())
		}
	}
	ids = append(append(ids, texts(o.Args, "shards")...), texts(o.Args, "others")...)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Here is the shard of a request that the config primary executes itself.
const Here = ""

// Request is a command for a shard, without the field operation.
type Request struct {
	Shard string
	Body  bson.Doc
	// Asks marks a request that only reads. It has no fence.
	Asks bool
	// ready reports whether a reply completes the request; if not, it is sent again. Nil
	// accepts every reply.
	ready func(bson.Doc) (bool, error)
	// hurried takes the place of ready once the operation is to commit soon (Hurry).
	hurried func(bson.Doc) (bool, error)
	// unknown is what it means that the shard does not know the command, as an earlier version
	// does not: nil if the request is complete. A nil function: an error as any other.
	unknown func() error
}

// Name is the command.
func (r *Request) Name() string {
	name, _ := r.Body.First()
	return name
}

// Answers are the replies to the requests of phase Trying.
type Answers []Answer

// Answer is the reply of one shard to the request Name.
type Answer struct {
	Shard, Name string
	Reply       bson.Doc
}

// From is the reply of a shard to a request, or nil.
func (a Answers) From(shard, name string) bson.Doc {
	for i := range a {
		if a[i].Shard == shard && a[i].Name == name {
			return a[i].Reply
		}
	}
	return nil
}

// last is the last reply of a shard to requests of that name, or nil.
func (a Answers) last(shard, name string) bson.Doc {
	for i := len(a) - 1; i >= 0; i-- {
		if a[i].Shard == shard && a[i].Name == name {
			return a[i].Reply
		}
	}
	return nil
}

// stage makes the requests that are sent in parallel.
type stage func(o *Operation, got Answers) []Request

type stages []stage

// plan lists the stages of each phase of an operation.
type plan map[Phase]stages

// phases makes a plan.
func phases(trying, committed, undone stages) plan {
	return plan{Trying: trying, Committed: committed, Undone: undone}
}

// plans has the plan of each kind of operation.
var plans map[string]plan

func init() {
	plans = map[string]plan{
		KindMove: move, KindChunks: chunks, KindShardCollection: shardCollection, KindCreateDatabase: createDatabase, KindMovePrimary: movePrimary,
		KindDrop: drop, KindDropDatabase: dropDatabase, KindRename: rename, KindRenameUnsharded: renameUnsharded, KindRefine: refine, KindUnshard: refine,
		KindIndexes: indexes, KindUntrack: untrack, KindReshard: reshard, KindAddShard: addShard, KindRemoveShard: removeShard,
		KindSettings: settings,
	}
}

// StartsCommitted reports whether operations of a kind have no phase Trying: their
// document is written together with the commit.
func StartsCommitted(kind string) bool {
	return len(plans[kind][Trying]) == 0
}

func texts(d bson.Doc, name string) (out []string) {
	v := d.Lookup(name)
	if v.Type != bson.TypeArray {
		return nil
	}
	for e := range v.Doc().Values() {
		if e.Type == bson.TypeString {
			out = append(out, e.Str())
		}
	}
	return out
}

// to makes a request, whose first field is the command with its namespace.
func to(shard, command, ns string, fill func(b *bson.Builder)) Request {
	b := new(bson.Builder).String(command, ns)
	if fill != nil {
		fill(b)
	}
	return Request{Shard: shard, Body: b.Finish()}
}

// each makes one request for every shard.
func each(shards []string, f func(shard string) Request) []Request {
	out := make([]Request, 0, len(shards))
	for _, s := range shards {
		out = append(out, f(s))
	}
	return out
}

// copied appends those of the named fields that d has.
func copied(b *bson.Builder, d bson.Doc, names ...string) {
	for _, name := range names {
		if v := d.Lookup(name); !v.IsMissing() {
			b.Value(name, v)
		}
	}
}
