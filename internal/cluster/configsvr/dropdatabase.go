package configsvr

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
)

// dropDatabase drops a database. (Manual: dropDatabase.)
func (s *Server) dropDatabase() *command.Command {
	return newCommand("DropDatabase", command.String(""), s.runDropDatabase)
}

func (s *Server) runDropDatabase(ctx context.Context, op *command.Op) error {
	name := value(op)
	_, err := s.operate(ctx, plan{op: op, kind: step.KindDropDatabase, ns: name, claim: claim{alone: []string{name}}, decide: func() (decision, error) {
		db, err := s.database(name)
		if err != nil || db.Name == "" {
			return decision{nothing: true}, err
		}
		all, err := s.shards()
		if err != nil {
			return decision{}, err
		}
		sharded, err := s.allTracked()
		if err != nil {
			return decision{}, err
		}
		d := decision{args: new(bson.Builder).Strings("shards", ids(all)...).String("primary", db.Primary).Finish()}
		d.writes = []write{remove(databases, bson.String(name)), s.logged("dropDatabase", name, bson.Empty)}
		for i := range sharded {
			if sharded[i].in(name) {
				d.writes = append(d.writes, remove(collections, bson.String(sharded[i].id())))
			}
		}
		err = s.each(tags, func(t bson.Doc) error {
			if databaseOf(text(t, "ns")) == name {
				d.writes = append(d.writes, remove(tags, t.Lookup("_id").Clone()))
			}
			return nil
		})
		if err != nil {
			return d, err
		}
		samples, err := s.stopsAnalyzing(func(ns string) bool { return databaseOf(ns) == name })
		d.writes = append(d.writes, samples...)
		return d, err
	}})
	return err
}
