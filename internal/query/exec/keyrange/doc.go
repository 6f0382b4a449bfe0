// Package keyrange turns the bounds of a plan into ranges of index keys, as bytes. A
// scan asks it which keys lie inside, and where to seek from one that does not.
package keyrange
