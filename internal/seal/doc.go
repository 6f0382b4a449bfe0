// Package seal encrypts and authenticates files with AES-256-GCM: those of a data directory
// that is encrypted, and temporary files (docs/rfcs/0031).
//
// # Keys
//
// A Master key wraps the store key of a directory (master.go); the store key wraps the key of
// each file, in its header (header.go). Only the store key's wrapping changes when the master
// key is rotated.
//
// # Files
//
// What is read anywhere is in Blocks, what is written piece by piece and read from the
// beginning in Records. Both have the offsets and sizes of the plain bytes. A piece carries its
// nonce, of which none is used twice: so the last piece may be written over with other bytes,
// as an attempt that has failed on a full disk and the end of a file that goes on are. Its place
// in the file is authenticated along with it.
//
// Start reading at header.go, then blocks.go.
package seal
