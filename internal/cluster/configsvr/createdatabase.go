package configsvr

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// createDatabase creates a database if it does not exist, on the named shard or the one
// with the least data. enableSharding is the same. (Manual:
// enableSharding.)
func (s *Server) createDatabase(name string) *command.Command {
	return newCommand(name, command.String(""), s.runCreateDatabase, command.String("primaryShard"))
}

func (s *Server) runCreateDatabase(ctx context.Context, op *command.Op) error {
	name := value(op)
	if !command.ValidDatabaseName(name) {
		return mongoerr.New(mongoerr.InvalidNamespace, "invalid db name specified: %s", name)
	}
	if name == "config" {
		return nil
	}
	if name == "admin" || name == "local" {
		return mongoerr.New(mongoerr.InvalidOptions, "cannot manually create database '%s'", name)
	}
	db, err := s.makeDatabase(ctx, op, name, op.Args.Str("primaryShard"))
	if err == nil {
		op.Reply.Doc("databaseVersion", db.Version).String("primaryShard", db.Primary)
	}
	return err
}

// makeDatabase creates a database if it does not exist. Errors: 70, 13297, and 48 if it
// has another primary shard than the requested one.
func (s *Server) makeDatabase(ctx context.Context, op *command.Op, name, primary string) (databaseDoc, error) {
	db, err := s.database(name)
	if err != nil || db.Name != "" && (primary == "" || primary == db.Primary) {
		return db, err
	}
	asked := primary
	if primary == "" {
		if primary, err = s.emptiest(ctx); err != nil {
			return db, err
		}
	}
	_, err = s.operate(ctx, plan{op: op, kind: step.KindCreateDatabase, ns: name, claim: claim{alone: []string{name}}, decide: func() (decision, error) {
		if db, err = s.checkDatabase(name); err != nil {
			return decision{}, err
		}
		if db.Name != "" {
			if asked != "" && asked != db.Primary {
				return decision{}, mongoerr.New(mongoerr.NamespaceExists, "database %s already created on primary %s which is different from %s", name, db.Primary, asked)
			}
			return decision{nothing: true}, nil
		}
		sh, err := s.shard(primary)
		if err == nil && sh.Draining {
			err = mongoerr.New(mongoerr.ShardNotFound, "Shard %s is draining", primary)
		}
		if err != nil {
			return decision{}, err
		}
		db = s.newDatabase(name, primary)
		args := new(bson.Builder).String("primary", primary).Doc("version", db.Version).Finish()
		return decision{args: args, commitment: commitment{writes: []write{db.put()}}}, nil
	}})
	return db, err
}

// checkDatabase returns the database with a name, or one with an empty name. Errors:
// 13297.
func (s *Server) checkDatabase(name string) (databaseDoc, error) {
	err := s.each(databases, func(d bson.Doc) error {
		if have := text(d, "_id"); have != name && strings.EqualFold(have, name) {
			return mongoerr.New(mongoerr.Code(13297), "db already exists with different case already have: [%s] trying to create [%s]", have, name)
		}
		return nil
	})
	if err != nil {
		return databaseDoc{}, err
	}
	return s.database(name)
}

// emptiest returns the shard with the least data. Shards that drain or do not answer
// are left out. Errors: 70.
func (s *Server) emptiest(ctx context.Context) (string, error) {
	all, err := s.shards()
	if err != nil {
		return "", err
	}
	best, least := "", int64(0)
	for _, sh := range all {
		if sh.Draining {
			continue
		}
		reply, err := s.Shards.Ask(ctx, sh.Host, "admin", new(bson.Builder).Int32("listDatabases", 1).Finish())
		if err != nil {
			continue
		}
		if size := bson.ClampToInt64(reply.Lookup("totalSize")); best == "" || size < least {
			best, least = sh.ID, size
		}
	}
	if best == "" {
		return "", mongoerr.New(mongoerr.ShardNotFound, "No shards found")
	}
	return best, nil
}
