// Package replicaset runs members of a replica set as processes, kills, stops and
// cuts them off, and looks whether the set kept its word. It has tests only.
package replicaset
