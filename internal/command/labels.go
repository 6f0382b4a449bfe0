package command

import (
	"slices"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// mayRetry has the errors after which a driver may retry an operation with a txnNumber.
// (Specification of retryable writes.)
var mayRetry = map[mongoerr.Code]bool{
	mongoerr.HostUnreachable: true, mongoerr.HostNotFound: true, mongoerr.NetworkTimeout: true, mongoerr.ShutdownInProgress: true,
	mongoerr.ReadConcernMajorityNotAvailableYet: true, mongoerr.PrimarySteppedDown: true, mongoerr.ExceededTimeLimit: true,
	mongoerr.SocketException: true, mongoerr.NotWritablePrimary: true, mongoerr.InterruptedAtShutdown: true,
	mongoerr.InterruptedDueToReplStateChange: true, mongoerr.NotPrimaryNoSecondaryOk: true, mongoerr.NotPrimaryOrSecondary: true,
}

// transient has the errors, besides those of mayRetry, after which a client may run the
// whole transaction again. (Specification of transactions.) QueryPlanKilled is among them as a
// drop need not wait for a transaction that has only read here, as it does on mongod.
var transient = map[mongoerr.Code]bool{
	mongoerr.QueryPlanKilled: true,
	mongoerr.WriteConflict:   true, mongoerr.LockTimeout: true, mongoerr.SnapshotTooOld: true, mongoerr.SnapshotUnavailable: true,
	mongoerr.StaleConfig: true, mongoerr.StaleDbVersion: true, mongoerr.NoSuchTransaction: true, mongoerr.PreparedTransactionInProgress: true,
}

const (
	labelTransient         = "TransientTransactionError"
	labelRetryableWrite    = "RetryableWriteError"
	labelNoWritesPerformed = "NoWritesPerformed"
	labelResumable         = "ResumableChangeStreamError"
	labelNotResumable      = "NonResumableChangeStreamError"
)

// mayResume has the errors after which a driver resumes a change stream, besides those of
// mayRetry: it may find what it needs at another member.
var mayResume = map[mongoerr.Code]bool{
	mongoerr.StaleConfig: true, mongoerr.Code(63): true, mongoerr.StaleEpoch: true, mongoerr.StaleDbVersion: true,
	mongoerr.RetryChangeStream: true, mongoerr.FailedToSatisfyReadPreference: true,
}

// streams reports whether the operation opens a change stream, or reads one. A getMore
// that fails before it has its cursor reads none, as on mongod.
func (op *Op) streams() bool {
	if op.Command == nil {
		return false
	}
	body := op.Body
	if op.Command.Kind == KindGetMore {
		body = op.Stats.OriginatingCommand
	}
	list := body.Lookup("pipeline")
	if list.Type != bson.TypeArray {
		return false
	}
	_, first := list.Doc().First()
	if first.Type != bson.TypeDocument {
		return false
	}
	name, _ := first.Doc().First()
	return name == "$changeStream"
}

// stateChanges has the errors that tell a driver that a member's role has changed: they
// carry topologyVersion. Those of a shutdown are not among them: it does not raise the
// version, and a driver ignores an error with a version that it knows.
var stateChanges = map[mongoerr.Code]bool{
	mongoerr.NotWritablePrimary: true, mongoerr.NotPrimaryNoSecondaryOk: true, mongoerr.Code(10058): true, mongoerr.NotPrimaryOrSecondary: true,
	mongoerr.InterruptedDueToReplStateChange: true, mongoerr.PrimarySteppedDown: true,
}

// labels returns the labels of op's error e, which is the reply's or that of the write
// concern. Only the dispatcher decides whether a write may be retried, as only it knows
// whether it has a txnNumber.
func (op *Op) labels(e *mongoerr.Error) []string {
	if op.injected != nil && op.injected.labelled {
		return e.Labels
	}
	all := slices.DeleteFunc(slices.Clone(e.Labels), func(l string) bool { return l == labelRetryableWrite })
	switch {
	case e.Code == mongoerr.ChangeStreamHistoryLost || e.Code == mongoerr.ChangeStreamFatalError:
		all = append(all, labelNotResumable)
	case (mayRetry[e.Code] || mayResume[e.Code]) && op.streams():
		all = append(all, labelResumable)
	}
	if op.Command != nil && op.InTransaction() {
		return op.transactionLabels(e, all)
	}
	if op.Command == nil || !op.Generic.HasTxnNumber || op.Client.Internal || !mayRetry[e.Code] {
		return all
	}
	return append(all, labelRetryableWrite)
}

// appendLabels writes errorLabels if the error of a write concern has some.
func (op *Op) appendLabels(e *mongoerr.Error) {
	if labels := op.labels(e); len(labels) > 0 {
		op.Reply.Strings("errorLabels", labels...)
	}
}

// MayRetry reports whether a driver tries again after an error what it had numbered.
func MayRetry(c mongoerr.Code) bool { return mayRetry[c] }

// transactionLabels is labels for an error in a transaction, or of the command that ends
// one.
func (op *Op) transactionLabels(e *mongoerr.Error, all []string) []string {
	all = slices.DeleteFunc(all, func(l string) bool { return l == labelTransient })
	switch ends := op.endsTransaction(); {
	case ends && mayRetry[e.Code]:
		return append(all, labelRetryableWrite)
	case transient[e.Code] && !(ends && op.unmet != nil), !ends && mayRetry[e.Code]:
		return append(all, labelTransient)
	}
	return all
}
