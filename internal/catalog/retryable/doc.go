// Package retryable has what a store keeps of the statements that sessions have
// executed, so that one which is sent again is answered and not executed again:
// their keys and their encoding. The catalog writes them with the documents.
//
// Start reading at record.go.
package retryable
