package configsvr

import (
	"context"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/shard"
)

// prefix begins the names of the commands that routers send to config servers.
const prefix = "_configsvr"

// newCommand declares a command. Its value and fields are those of the client's command
// of the same name, which errors name.
func newCommand(name string, value *command.Field, run command.Handler, fields ...*command.Field) *command.Command {
	return &command.Command{
		Name: prefix + name, Flags: command.AdminOnly | command.TakesWriteConcern, Run: run,
		Fields: command.NewFields(lowerFirst(name), append([]*command.Field{command.Value(value)}, fields...)...),
		Help:   "what a router asks the config servers for " + lowerFirst(name),
	}
}

func lowerFirst(name string) string { return strings.ToLower(name[:1]) + name[1:] }

// clientsName returns the name of the client's command.
func clientsName(c *command.Command) string { return lowerFirst(strings.TrimPrefix(c.Name, prefix)) }

// value returns the command's own value, a string.
func value(op *command.Op) string { return op.Args.Str(clientsName(op.Command)) }

// namespaceOf returns the namespace that a command is about. The name of the buckets of a
// time series stands for the time series, whose only entry in config.collections is theirs.
// Errors: 73.
func namespaceOf(op *command.Op) (string, error) {
	ns, err := checkNamespace(value(op))
	if err != nil {
		return "", err
	}
	return ofBuckets(ns), nil
}

// ofBuckets returns the namespace of a time series for that of its buckets, and any other as
// it is.
func ofBuckets(ns string) string {
	n := schema.ParseNamespace(ns)
	n.Coll = strings.TrimPrefix(n.Coll, schema.BucketsPrefix)
	return n.String()
}

// bucketsOf returns the namespace of the buckets of a time series.
func bucketsOf(ns string) string { return schema.ParseNamespace(ns).Buckets().String() }

func checkNamespace(ns string) (string, error) {
	n := schema.ParseNamespace(ns)
	if n.DB == "" || n.Coll == "" || !command.ValidDatabaseName(n.DB) || !command.ValidCollectionName(n.Coll) {
		return "", mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s'", ns)
	}
	return ns, nil
}

// change runs f under Server.mu, and commits the writes that it returns.
func (s *Server) change(ctx context.Context, f func() ([]write, error)) error {
	t, err := s.term()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, err := s.term(); err != nil || now != t {
		return errDeposed
	}
	writes, err := f()
	if err != nil {
		return err
	}
	return s.commit(ctx, writes...)
}

// read runs f under Server.mu.
func (s *Server) read(f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

// bound reads one of the two ends of a range. Errors: 2.
func bound(key *shard.Key, v bson.Value) (shard.Bound, error) {
	if v.Type == bson.TypeDocument {
		if b, ok := key.ParseBound(v.Doc()); ok {
			return b, nil
		}
	}
	return shard.Bound{}, mongoerr.New(mongoerr.BadValue, "%s is not valid for shard key pattern %s", v, key)
}

func badValue(format string, args ...any) error {
	return mongoerr.New(mongoerr.BadValue, format, args...)
}
