// Package accountimport makes an Azure Cosmos DB account, or a server with its endpoint, hold what
// another one holds: databases, containers and items, by the REST protocol of the NoSQL API at both
// ends (docs/operate/moving-in.md).
//
// Nothing is remembered between two runs. A run compares each item with the one at the target, and
// writes those that differ; a run while nobody writes, which has nothing to write and finds nothing
// else at the target, has proven that both are equal: items, and of the containers the partition
// key, time to live and unique keys.
//
// Start reading at accountimport.go.
package accountimport
