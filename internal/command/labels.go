package command

import (
	"slices"

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

const (
	labelRetryableWrite    = "RetryableWriteError"
	labelNoWritesPerformed = "NoWritesPerformed"
)

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
