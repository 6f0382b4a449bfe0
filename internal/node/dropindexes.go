package node

import (
	"context"
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var dropIndexesFields = command.NewFields("dropIndexes",
	command.CollectionOrUUID(),
	command.OneOf("index", bson.TypeArray, bson.TypeDocument, bson.TypeString).Required().NotNull(),
	command.UUID("collectionUUID"),
	command.Bool("isTimeseriesNamespace"),
)

// dropIndexes answers {dropIndexes: collection, index: …}, where index is a
// name, several names, a key pattern, or "*" for all but the one on _id.
// Error 370 for the last index that a sharded collection needs. (Manual: database command
// dropIndexes.)
func (n *Node) dropIndexes() *command.Command {
	return &command.Command{
		Name: "dropIndexes", Aliases: []string{"deleteIndexes"}, Fields: dropIndexesFields, Flags: command.ChecksDatabase | ddlFlags | command.APIv1,
		Help: "drop indexes for a collection",
		Run:  n.runDropIndexes,
	}
}

func (n *Node) runDropIndexes(ctx context.Context, op *command.Op) error {
	index := op.Args.Value("index")
	if err := checkIndexNames(index); err != nil {
		return err
	}
	c, err := n.existing(op, "ns not found "+op.NS)
	if err != nil {
		return err
	}
	if err := n.checkUUID(op.DB, op.Collection, c, op.Args.Value("collectionUUID")); err != nil {
		return err
	}
	was := 0
	_, err = n.Catalog.DropIndexes(ctx, c.Namespace, func(c *catalog.Collection) ([]*catalog.Index, error) {
		was = countedIndexes(c)
		picked, err := pickIndexes(c, index)
		if err != nil {
			return nil, err
		}
		return keepShardKey(c, picked, index.Type == bson.TypeString && index.Str() == "*")
	})
	if err != nil {
		return err
	}
	if index.Type == bson.TypeString && index.Str() == "*" {
		op.Reply.Int32("nIndexesWas", int32(was)).String("msg", "non-_id indexes dropped for collection")
		return nil
	}
	op.Reply.Int32("nIndexesWas", int32(was))
	return nil
}

func checkIndexNames(index bson.Value) error {
	if index.Type != bson.TypeArray {
		return nil
	}
	for i, v := range index.Doc().Slice() {
		if v.Type != bson.TypeString {
			return mongoerr.New(mongoerr.TypeMismatch, "BSON field 'dropIndexes.index.%d' is the wrong type '%s', expected type 'string'", i, v.Type)
		}
	}
	return nil
}

// pickIndexes finds the indexes that the argument of dropIndexes means. Errors:
// 27 for none, 181 for a key pattern of several, 72 for the one on _id, 5979800
// for the key of a clustered collection.
func pickIndexes(c *catalog.Collection, index bson.Value) ([]*catalog.Index, error) {
	switch index.Type {
	case bson.TypeString:
		if index.Str() == "*" {
			return secondary(c), nil
		}
		ix, err := pickByName(c, index.Str())
		if err != nil {
			return nil, err
		}
		return []*catalog.Index{ix}, nil
	case bson.TypeDocument:
		ix, err := findByKey(c, index.Doc(), "can't find index with key: "+index.Doc().String())
		if err != nil {
			return nil, err
		}
		if err := droppable(c, ix); err != nil {
			return nil, err
		}
		return []*catalog.Index{ix}, nil
	}
	var picked []*catalog.Index
	for v := range index.Doc().Values() {
		if v.Str() == "*" && picked == nil {
			return secondary(c), nil
		}
		ix, err := pickByName(c, v.Str())
		if err != nil {
			return nil, err
		}
		if slices.Contains(picked, ix) {
			return nil, mongoerr.New(mongoerr.IndexNotFound, "index not found with name [%s]", v.Str())
		}
		picked = append(picked, ix)
	}
	return picked, nil
}

func secondary(c *catalog.Collection) (all []*catalog.Index) {
	for _, ix := range c.Indexes() {
		if !ix.IsID() && !ix.Clusters() {
			all = append(all, ix)
		}
	}
	return all
}

func pickByName(c *catalog.Collection, name string) (*catalog.Index, error) {
	ix := c.Index(name)
	if ix == nil {
		return nil, mongoerr.New(mongoerr.IndexNotFound, "index not found with name [%s]", name)
	}
	return ix, droppable(c, ix)
}

func droppable(c *catalog.Collection, ix *catalog.Index) error {
	if c.Settings.Clustered != nil && ix.Clusters() {
		return mongoerr.New(mongoerr.Code(5979800), "It is illegal to drop the clusteredIndex")
	}
	if ix.IsID() || ix.Clusters() {
		return mongoerr.New(mongoerr.InvalidOptions, "cannot drop _id index")
	}
	return nil
}

// findByKey finds the one index with a key pattern. Errors: 27 with the message
// missing, 181 if there are several.
func findByKey(c *catalog.Collection, key bson.Doc, missing string) (*catalog.Index, error) {
	var found []*catalog.Index
	for _, ix := range c.Indexes() {
		if bson.Equal(bson.Document(ix.Key), bson.Document(key)) {
			found = append(found, ix)
		}
	}
	switch len(found) {
	case 0:
		return nil, mongoerr.New(mongoerr.IndexNotFound, "%s", missing)
	case 1:
		return found[0], nil
	}
	conflicting := ""
	for i, ix := range found {
		if i > 0 {
			conflicting += ", "
		}
		conflicting += ix.Shown().String()
	}
	return nil, mongoerr.New(mongoerr.AmbiguousIndexKeyPattern,
		"index keyPattern %s matches %d indexes, must use index name. Conflicting indexes:%s", key, len(found), conflicting)
}

// keepShardKey returns the indexes that may be dropped of those that a client wants to
// drop. A sharded collection keeps an index that supports its shard key: all means that
// the client named none, and does not want that one to go. A hashed key needs no index.
// Error 370.
func keepShardKey(c *catalog.Collection, dropped []*catalog.Index, all bool) ([]*catalog.Index, error) {
	if c.Sharding() == nil || c.Sharding().Key.IsHashed() {
		return dropped, nil
	}
	key := c.Sharding().Key
	had, _ := catalog.IndexForShardKey(c.Indexes(), key)
	if had == nil || !slices.Contains(dropped, had) {
		return dropped, nil
	}
	left := slices.DeleteFunc(slices.Clone(c.Indexes()), func(ix *catalog.Index) bool { return slices.Contains(dropped, ix) })
	switch other, _ := catalog.IndexForShardKey(left, key); {
	case other != nil:
		return dropped, nil
	case all:
		return slices.DeleteFunc(slices.Clone(dropped), func(ix *catalog.Index) bool { return ix == had }), nil
	}
	return nil, mongoerr.New(mongoerr.CannotDropShardKeyIndex, "Cannot drop the only compatible index for this collection's shard key")
}
