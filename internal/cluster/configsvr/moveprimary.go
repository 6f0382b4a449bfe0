package configsvr

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// movePrimary moves the unsharded collections of a database to another shard. (Manual:
// movePrimary.)
func (s *Server) movePrimary() *command.Command {
	return newCommand("MovePrimary", command.String(""), s.runMovePrimary, command.String("to").Required())
}

func (s *Server) runMovePrimary(ctx context.Context, op *command.Op) error {
	name, to := value(op), op.Args.Str("to")
	if name == "admin" || name == "config" || name == "local" {
		return mongoerr.New(mongoerr.InvalidOptions, "Can't move primary for %s database", name)
	}
	if to == "" {
		return mongoerr.New(mongoerr.InvalidOptions, "You have to specify where you want to move it")
	}
	_, err := s.operate(ctx, plan{kind: step.KindMovePrimary, ns: name, claim: claim{alone: []string{name}}, decide: func() (decision, error) {
		db, err := s.existing(name)
		if err != nil {
			return decision{}, err
		}
		sh, err := s.shard(to)
		if err == nil && sh.Draining {
			err = mongoerr.New(mongoerr.ShardNotFound, "Could not move database '%s' to shard '%s' because the shard is draining", name, to)
		}
		if err != nil || db.Primary == to {
			return decision{nothing: true}, err
		}
		from, err := s.shard(db.Primary)
		args := new(bson.Builder).String("from", db.Primary).String("to", to).String("host", from.Host).Doc("version", db.Version).Doc("next", db.next()).Finish()
		return decision{args: args, commitment: commitment{writes: []write{s.logged("movePrimary.start", name, args)}}}, err
	}})
	return err
}

func (s *Server) commitMovePrimary(o *step.Operation, _ step.Answers) (commitment, error) {
	db := databaseDoc{o.Namespace, text(o.Args, "to"), o.Args.Lookup("next").Doc()}
	return commitment{writes: []write{db.put(), s.logged("movePrimary", o.Namespace, o.Args)}}, nil
}
