package shardsvr

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// logDecidedByHand is the id of the log line about a decision by an operator.
const logDecidedByHand = 9000046

// coordinatorTime is how long a coordinator has to answer before an operator may decide.
const coordinatorTime = 5 * time.Second

// decideByHand answers {decidePreparedTransaction: 1, transaction: {lsid: {id, uid}, txnNumber},
// decision: "commit" | "abort", commitTimestamp}: an operator decides a prepared transaction
// whose coordinator's shard is lost for good. Errors: 251 if it is not prepared here, 20 where
// the coordinator answers: then it decides; 72 for a commit without a time that is not below that
// of the prepare.
func (s *Shard) decideByHand() *command.Command {
	return &command.Command{
		Name: "decidePreparedTransaction", Flags: command.AdminOnly | command.TakesWriteConcern,
		Help: "decide a prepared transaction whose coordinator's shard is lost for good",
		Fields: command.NewFields("decidePreparedTransaction", command.Object("transaction").Required(), command.String("decision").Required(),
			command.Timestamp("commitTimestamp")),
		Run: func(ctx context.Context, op *command.Op) error {
			id, err := transactionOf(op)
			if err != nil {
				return err
			}
			at, decision := uint64(0), op.Args.Str("decision")
			if v := op.Args.Value("commitTimestamp"); v.Type == bson.TypeTimestamp {
				at = v.Timestamp()
			}
			switch {
			case decision != "commit" && decision != "abort":
				return mongoerr.New(mongoerr.BadValue, "decision must be commit or abort, found %s", decision)
			case decision == "abort" && at != 0:
				return mongoerr.New(mongoerr.InvalidOptions, "commitTimestamp is only for commits")
			}
			coordinator, prepared := "", uint64(0)
			for _, u := range s.cat.Undecided() {
				if command.SessionID(u.Session) == id.session && u.Txn == id.number {
					coordinator, prepared = u.Coordinator, u.Time
				}
			}
			switch {
			case coordinator == "":
				return mongoerr.New(mongoerr.NoSuchTransaction, "no transaction %d of this session is prepared here", id.number)
			case decision == "commit" && at < prepared:
				return mongoerr.New(mongoerr.InvalidOptions, "commitTimestamp has to be one for all shards, and not below the time of any prepare; here that is %s", bson.Timestamp(prepared))
			case coordinator == s.node.ShardName():
				return mongoerr.New(mongoerr.IllegalOperation, "this shard coordinates the transaction, and decides it by itself")
			}
			if s.answers(ctx, id, coordinator) {
				return mongoerr.New(mongoerr.IllegalOperation, "the coordinator, shard %s, answers, and decides the transaction by itself", coordinator)
			}
			s.log.WarnContext(ctx, "An operator decides a prepared transaction", "id", logDecidedByHand, "coordinator", coordinator, "txnNumber", id.number, "decision", decision)
			_, err = s.run(ctx, "admin", decisionCommand(id, decision == "abort", at, coordinator))
			return err
		},
	}
}

// answers reports whether a transaction's coordinator can be asked.
func (s *Shard) answers(ctx context.Context, id transactionID, coordinator string) bool {
	ctx, cancel := context.WithTimeout(ctx, coordinatorTime)
	defer cancel()
	_, err := s.askShard(ctx, coordinator, new(bson.Builder).Int32("_shardsvrDecision", 1).Doc("transaction", id.key()).Finish())
	return err == nil
}
