package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

var dropDatabaseFields = command.NewFields("dropDatabase",
	command.Value(command.SafeInt64("").Required()),
)

// dropDatabase answers {dropDatabase: 1}. (Manual: database command
// dropDatabase.)
func (n *Node) dropDatabase() *command.Command {
	return &command.Command{
		Name: "dropDatabase", Fields: dropDatabaseFields, Flags: ddlFlags | command.APIv1,
		Help: "drop (delete) this database",
		Run:  n.runDropDatabase,
	}
}

func (n *Node) runDropDatabase(ctx context.Context, op *command.Op) error {
	if err := CheckDropDatabase(op); err != nil {
		return err
	}
	if op.DB == "admin" {
		return mongoerr.New(mongoerr.IllegalOperation, "Dropping the '%s' database is prohibited.", op.DB)
	}
	if op.DB == "local" && n.Dispatcher.Member != nil {
		return mongoerr.New(mongoerr.IllegalOperation, "Cannot drop '%s' database while replication is active", op.DB)
	}
	dropped, err := n.Catalog.DropDatabase(ctx, op.DB)
	for _, c := range dropped {
		n.invalidate(c)
	}
	return err
}

// CheckDropDatabase checks the value of a dropDatabase. Error 5255100.
func CheckDropDatabase(op *command.Op) error {
	if _, v := op.Body.First(); bson.ClampToInt64(v) != 1 {
		return mongoerr.New(mongoerr.Code(5255100), "Have to pass 1 as 'drop' parameter")
	}
	return nil
}
