// Package retryable encodes the records of the statements that sessions have
// executed, so that a statement that is sent again is answered and not executed
// again. The catalog writes the records together with the documents.
//
// Start reading at record.go.
package retryable
