package configsvr

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/client"
	"github.com/mayflydb/mayfly/internal/cluster/step"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// addShard adds a replica set to the cluster. (Manual: addShard.)
func (s *Server) addShard() *command.Command {
	return newCommand("AddShard", command.String(""), s.runAddShard, command.String("name"), command.SafeInt64("maxSize"))
}

func (s *Server) runAddShard(ctx context.Context, op *command.Op) error {
	at, err := client.ParseSetString(value(op))
	if err != nil {
		return err
	}
	if op.Args.Has("maxSize") && op.Args.Int64("maxSize") != 0 {
		return badValue("maxSize is not supported any more")
	}
	name := op.Args.Str("name")
	if op.Args.Has("name") && name == "" {
		return badValue("shard name cannot be empty")
	}
	if name == configShard || name == "" && at.Name == configShard {
		return badValue("use of shard replica set with name 'config' is not allowed")
	}
	has, host, err := s.identify(ctx, at, name)
	if err != nil {
		return err
	}
	if name, err = s.addAs(ctx, at, host, name, has); err == nil {
		op.Reply.String("shardAdded", name)
	}
	return err
}

// addAs adds a set, which has identified itself, as a shard. It returns the shard's id:
// name, or one that is made if that is empty.
func (s *Server) addAs(ctx context.Context, at client.SetString, host, name string, has []string) (string, error) {
	_, err := s.operate(ctx, plan{kind: step.KindAddShard, ns: at.Name, claim: shardListClaim(at.Name, has), decide: func() (decision, error) {
		d, id, err := s.decideAddShard(at, host, name, has)
		name = id
		return d, err
	}})
	return name, err
}

// identify asks a replica set for its identity and its databases. name is the id that it
// will have as a shard. host is its name with the members that it reports.
// Errors: 20, 96, 203, those of the network.
func (s *Server) identify(ctx context.Context, at client.SetString, name string) (has []string, host string, err error) {
	hello, err := s.Shards.Ask(ctx, at.String(), "admin", new(bson.Builder).Int32("hello", 1).Finish())
	if err != nil {
		return nil, "", err
	}
	switch set := text(hello, "setName"); {
	case text(hello, "msg") == "isdbgrid":
		return nil, "", mongoerr.New(mongoerr.IllegalOperation, "cannot add mongos as a shard")
	case hello.Has("configsvr") && name != configShard:
		return nil, "", mongoerr.New(mongoerr.OperationFailed, "Cannot add %s as a shard since it is a config server", at)
	case set == "":
		return nil, "", mongoerr.New(mongoerr.OperationFailed, "host did not return a set name; the set %s may still be initializing", at)
	case set != at.Name:
		return nil, "", mongoerr.New(mongoerr.OperationFailed, "the provided connection string (%s) does not match the actual set name %s", at, set)
	}
	members := hello.Lookup("hosts")
	for _, h := range at.Hosts {
		if members.Type == bson.TypeArray && !slices.ContainsFunc(members.Doc().Slice(), func(v bson.Value) bool { return v.Type == bson.TypeString && v.Str() == h }) {
			return nil, "", mongoerr.New(mongoerr.OperationFailed, "in seed list %s, host %s does not belong to replica set %s", at, h, at.Name)
		}
	}
	if members.Type == bson.TypeArray {
		at.Hosts = nil
		for v := range members.Doc().Values() {
			at.Hosts = append(at.Hosts, v.Str())
		}
	}
	_, err = s.Shards.Ask(ctx, at.String(), "admin", new(bson.Builder).Int32("_shardsvrOwned", 1).Strings("namespaces").Finish())
	if mongoerr.Is(err, mongoerr.CommandNotFound) {
		err = mongoerr.New(mongoerr.ShardingStateNotInitialized, "Cannot add %s as a shard: Cannot accept sharding commands if not started with --shardsvr", at)
	}
	if err != nil {
		return nil, "", err
	}
	list, err := s.Shards.Ask(ctx, at.String(), "admin", new(bson.Builder).Int32("listDatabases", 1).Bool("nameOnly", true).Finish())
	if err != nil {
		return nil, "", err
	}
	for v := range list.Lookup("databases").Doc().Values() {
		if db := text(v.Doc(), "name"); db != "admin" && db != "local" && db != "config" {
			has = append(has, db)
		}
	}
	return has, at.String(), nil
}

func (s *Server) decideAddShard(at client.SetString, host, name string, has []string) (decision, string, error) {
	all, err := s.shards()
	if err != nil {
		return decision{}, "", err
	}
	taken := func(id string) bool {
		return slices.ContainsFunc(all, func(sh shardDoc) bool { return sh.ID == id })
	}
	for _, sh := range all {
		if set, _, _ := strings.Cut(sh.Host, "/"); set != at.Name {
			continue
		}
		if name != "" && name != sh.ID {
			return decision{}, "", mongoerr.New(mongoerr.IllegalOperation, "A shard already exists containing the replica set '%s'", at.Name)
		}
		return decision{nothing: true}, sh.ID, nil
	}
	config, _, _ := strings.Cut(s.ConfigDB(), "/")
	switch {
	case name != configShard && config == at.Name: // a backup could not tell one from the other
		return decision{}, "", mongoerr.New(mongoerr.OperationFailed, "Cannot add %s as a shard since the config servers are a replica set of that name", at)
	case name != "" && taken(name):
		return decision{}, "", mongoerr.New(mongoerr.OperationFailed, "A shard named %s exists already", name)
	case name == "" && !taken(at.Name):
		name = at.Name
	case name == "":
		for i := 0; name == "" || taken(name); i++ {
			name = fmt.Sprintf("shard%04d", i)
		}
	}
	b := new(bson.Builder).OpenDoc("databases")
	for _, db := range has {
		d, err := s.database(db)
		if err != nil {
			return decision{}, "", err
		}
		if d.Name != "" {
			return decision{}, "", mongoerr.New(mongoerr.OperationFailed, "can't add shard '%s' because a local database '%s' exists in another %s", at, db, d.Primary)
		}
		d = s.newDatabase(db, name)
		b.Doc(db, d.Version)
	}
	versions := b.Close().Finish()
	identity, err := s.shardIdentity(name, host)
	return decision{args: new(bson.Builder).Fields(identity).Fields(versions).Finish()}, name, err
}

// shardIdentity returns the arguments of an operation that adds a set to the cluster or
// removes it.
func (s *Server) shardIdentity(name, host string) (bson.Doc, error) {
	id, err := s.clusterID()
	if err != nil {
		return nil, err
	}
	b := new(bson.Builder).String("shard", name).String("shardHost", host).Value("clusterId", id).String("configdb", s.ConfigDB())
	if name != configShard { // which has the settings of the cluster
		all, err := s.clusterSettings()
		if err != nil {
			return nil, err
		}
		b.Value("settings", all)
	}
	return b.Finish(), nil
}

func (s *Server) commitAddShard(o *step.Operation, _ step.Answers) (commitment, error) {
	name, host := text(o.Args, "shard"), text(o.Args, "shardHost")
	doc := new(bson.Builder).String("_id", name).String("host", host).Int32("state", 1).Timestamp("topologyTime", s.ClusterTime()).Int64("replSetConfigVersion", -1).Finish()
	writes := []write{put(shards, doc), s.logged("addShard", "", new(bson.Builder).String("name", name).String("host", host).Finish())}
	for db, version := range o.Args.Lookup("databases").Doc().All() {
		d := databaseDoc{db, name, version.Doc()}
		writes = append(writes, d.put())
	}
	return commitment{writes: writes}, nil
}
