package router

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// fileMD5 answers {filemd5: id, root: "fs"} with the MD5 digest of a file of GridFS, whose
// chunks lie on one shard by files_id, or on several by files_id and n. (Manual: database
// command filemd5.)
func (r *Router) fileMD5() *command.Command {
	return &command.Command{
		Name: "filemd5", Flags: command.TakesReadConcern, Help: " example: { filemd5 : ObjectId(aaaaaaa) , root : \"fs\" }", Run: r.runFileMD5,
	}
}

func (r *Router) runFileMD5(ctx context.Context, op *command.Op) error {
	root := "fs"
	if v := op.Args.Value("root"); v.Type == bson.TypeString {
		root = v.Str()
	}
	op.SetCollection(root + ".chunks")
	return r.byRoute(ctx, op, op.DB+"."+root+".chunks", func(rt *route) error {
		_, id := op.Body.First()
		names, err := rt.targets(op, new(bson.Builder).Value("files_id", id).Finish(), nil, nil)
		switch {
		case err != nil:
			return err
		case len(names) == 1:
			return r.passTo(ctx, op, rt, names[0])
		}
		for name := range rt.chunks.Key().Pattern().All() {
			if name != "files_id" && name != "n" {
				return mongoerr.New(mongoerr.IllegalOperation, "The GridFS fs.chunks collection must be sharded on either {files_id:1} or {files_id:1, n:1}")
			}
		}
		return r.digestFile(ctx, op, rt, id)
	})
}

// digestFile has the owner of the next chunk go on with the digest, as far as it has the chunks
// in a row, until the chunk is not there: then the file has ended, unless there are later ones.
func (r *Router) digestFile(ctx context.Context, op *command.Op, rt *route, id bson.Value) error {
	var state bson.Value
	next, partial := int64(0), op.Args.Value("partialOk").Truthy()
	if partial {
		state, next = op.Args.Value("md5state"), bson.ClampToInt64(op.Args.Value("startAt"))
	}
	for {
		names, err := rt.targets(op, new(bson.Builder).Value("files_id", id).Int64("n", next).Finish(), nil, nil)
		if err != nil {
			return err
		}
		b := new(bson.Builder).Value("filemd5", id)
		appendRest(b, op.Body, "partialOk", "md5state", "startAt")
		b.Bool("partialOk", true).Int64("startAt", next)
		if !state.IsMissing() {
			b.Value("md5state", state)
		}
		rt.appendVersions(b, names[0])
		a, err := r.ask(ctx, op, question{shard: names[0], db: op.DB, body: b.Finish(), reads: true})
		if err != nil {
			return err
		}
		was := next
		if next = bson.ClampToInt64(a.Reply.Lookup("numChunks")); next > was {
			state = a.Reply.Lookup("md5state")
			continue
		}
		if partial {
			op.Reply.Value("md5state", a.Reply.Lookup("md5state"))
		} else if err := r.endsAt(ctx, op, rt, id, next); err != nil {
			return err
		}
		op.Reply.Int("numChunks", next).Value("md5", a.Reply.Lookup("md5"))
		return nil
	}
}

// endsAt checks that a file has no chunk from a number on. Error 10040.
func (r *Router) endsAt(ctx context.Context, op *command.Op, rt *route, id bson.Value, next int64) error {
	filter := new(bson.Builder).Value("files_id", id).OpenDoc("n").Int64("$gte", next).Close().Finish()
	names, err := rt.targets(op, filter, nil, nil)
	if err != nil {
		return err
	}
	_, err = each(names, func(name string) (client.Answer, error) {
		b := new(bson.Builder).String("find", op.Collection).Doc("filter", filter).OpenDoc("projection").Int32("n", 1).Close().Int32("limit", 1).Bool("singleBatch", true)
		rt.appendVersions(b, name)
		a, err := r.ask(ctx, op, question{shard: name, db: op.DB, body: b.Finish(), reads: true})
		if err == nil && len(documents(document(a.Reply.Lookup("cursor")).Lookup("firstBatch"))) > 0 {
			err = mongoerr.New(mongoerr.Code(10040), "chunks out of order")
		}
		return a, err
	})
	return err
}
