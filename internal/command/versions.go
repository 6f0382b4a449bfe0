package command

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// Versions are what a router knows of who owns what a statement is about.
type Versions struct {
	// Shard is the version of the collection on the shard that is asked; the unsharded one
	// where the router takes the collection for unsharded.
	Shard schema.ShardVersion
	// Database is the version of the database, {uuid, timestamp, lastMod}; nil for none.
	Database bson.Doc
	// KeyMayBe are ranges {min, max} of the same shard, into which an update may take a
	// document's shard key.
	KeyMayBe []bson.Doc
}

// set reads one of the generic arguments. Errors: 14, 40414.
func (v *Versions) set(name string, value bson.Value) (err error) {
	switch name {
	case "shardVersion":
		v.Shard, err = schema.ParseShardVersion(value.Doc())
	case "databaseVersion":
		v.Database = value.Doc()
	case "shardKeyMayBe":
		for r := range value.Doc().Values() {
			if r.Type != bson.TypeDocument {
				return mongoerr.New(mongoerr.TypeMismatch, "shardKeyMayBe must be an array of {min, max}, found %s", value)
			}
			v.KeyMayBe = append(v.KeyMayBe, r.Doc())
		}
	}
	return err
}

// ParseVersions reads shardVersion and databaseVersion of a part of a command, such as a
// namespace of bulkWrite; nil if there are none. Errors: 14, 40414.
func ParseVersions(shard, database bson.Doc) (*Versions, error) {
	if shard == nil && database == nil {
		return nil, nil
	}
	v := &Versions{Database: database}
	if shard == nil {
		return v, nil
	}
	return v, v.set("shardVersion", bson.Document(shard))
}
