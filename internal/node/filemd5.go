package node

import (
	"context"
	"crypto/md5"
	"encoding"
	"encoding/hex"
	"hash"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/sortkey"
)

var fileMD5Fields = command.NewFields("filemd5",
	command.Value(command.Any("")),
	command.Any("root"),
	command.Any("partialOk"),
	command.Any("md5state"),
	command.Any("startAt"),
)

// fileMD5 answers {filemd5: id, root: "fs"} with the MD5 digest of a file that
// GridFS has stored in chunks. With partialOk it ends at a chunk that is
// missing, and md5state and startAt continue from there. (Manual: database
// command filemd5.)
func (n *Node) fileMD5() *command.Command {
	return &command.Command{
		Name: "filemd5", Fields: fileMD5Fields, Flags: command.TakesReadConcern,
		Help: " example: { filemd5 : ObjectId(aaaaaaa) , root : \"fs\" }",
		Run:  n.runFileMD5,
	}
}

func (n *Node) runFileMD5(ctx context.Context, op *command.Op) error {
	root := "fs"
	if v := op.Args.Value("root"); v.Type == bson.TypeString {
		root = v.Str()
	}
	op.SetCollection(root + ".chunks")
	if admit := op.Dispatcher.Admit; admit != nil {
		if err := admit(ctx, op); err != nil {
			return err
		}
	}
	digest, next := md5.New(), int64(0)
	partial := op.Args.Value("partialOk").Truthy()
	if partial {
		if v := op.Args.Value("md5state"); !v.IsMissing() {
			if err := resumeMD5(digest, v); err != nil {
				return err
			}
		}
		next = bson.ClampToInt64(op.Args.Value("startAt"))
	}
	if next, err := n.digestChunks(ctx, op, digest, next, partial); err != nil {
		return err
	} else if partial {
		state, err := digest.(encoding.BinaryMarshaler).MarshalBinary()
		if err != nil {
			return err
		}
		op.Reply.Binary("md5state", 0, state).Int("numChunks", next)
	} else {
		op.Reply.Int("numChunks", next)
	}
	op.Reply.String("md5", hex.EncodeToString(digest.Sum(nil)))
	return nil
}

// resumeMD5 puts a digest into the state that an answer had in md5state.
func resumeMD5(digest hash.Hash, v bson.Value) error {
	wrong := mongoerr.New(mongoerr.Code(16247), "md5 state not correct size")
	if v.Type != bson.TypeBinary {
		return wrong
	}
	_, state := v.Binary()
	if digest.(encoding.BinaryUnmarshaler).UnmarshalBinary(state) != nil {
		return wrong
	}
	return nil
}

// digestChunks adds the chunks of a file from a number on, and returns the
// number of the next one.
func (n *Node) digestChunks(ctx context.Context, op *command.Op, digest hash.Hash, next int64, partial bool) (int64, error) {
	_, id := op.Body.First()
	filter := new(bson.Builder).Value("files_id", id).OpenDoc("n").Int64("$gte", next).Close().Finish()
	q, err := n.newQuery(op, nil, nil, filter)
	if err != nil {
		return 0, err
	}
	if q.Sort, err = sortkey.Parse(new(bson.Builder).Int32("files_id", 1).Int32("n", 1).Finish()); err != nil {
		return 0, err
	}
	q.NoScan = true
	cur, err := n.Exec.Find(ctx, q.coll, q.Query)
	if err != nil {
		return 0, err
	}
	defer cur.Close()
	observe(op, cur)
	for {
		d, err := cur.Next(ctx)
		if err != nil || d == nil {
			return next, err
		}
		number, data := d.Lookup("n"), d.Lookup("data")
		switch {
		case bson.ClampToInt64(number) == next:
		case partial:
			return next, nil // it may be elsewhere
		default:
			return 0, mongoerr.New(mongoerr.Code(10040), "chunks out of order")
		}
		if data.Type != bson.TypeBinary {
			return 0, mongoerr.New(mongoerr.Code(50847), "The element that calls binDataClean() must be type of BinData, but type of %s found.", data.Type)
		}
		_, content := data.Binary()
		digest.Write(content)
		next++
	}
}
