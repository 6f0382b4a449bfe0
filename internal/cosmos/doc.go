// Package cosmos answers the REST protocol of Azure Cosmos DB's NoSQL API, so
// that applications written with its SDKs run on Mayfly. (Cosmos DB: "Azure
// Cosmos DB REST API", "Time to Live (TTL) in Azure Cosmos DB".)
//
// A request is routed by its path (path.go), signed with a key (auth.go) or a
// permission's token (resourcetoken.go), and answered by one handler for each kind
// of resource: account.go, databases.go, containers.go, items.go with patch.go and
// batch.go, queries.go, whose pages continue from a place (place.go), changes.go
// and allversions.go, offers.go, ranges.go, users.go and permissions.go. Databases
// and containers are in registry.go.
//
// On a cluster a router has the endpoint (oncluster.go, forward.go): it has the config
// servers run what is about definitions (onconfig.go), and the owner of a partition what is
// about that (onshard.go), by the same handlers; what spans partitions it runs itself. A
// server in no cluster keeps both (local.go). (docs/rfcs/0028-cosmos-on-a-cluster.md)
//
// # Layout
//
// A container is a collection in the database of the same name; names that
// MongoDB does not allow are escaped (namespace.go). An item is one document,
//
//	{_id: {p: {0: partition key value, …}, i: id}, _n, _lsn, the user's
//	 properties…, _rid, _self, _etag, _attachments, _ts}
//
// clustered by _id, so that a point read is one lookup, and a partition is one range. Where
// a container gets its time to live before its first items, they are clustered by expiry
// instead (docs/rfcs/0008-expiry-windows.md). _n numbers the items in the order of their
// creation, _lsn all writes; each has an index, for feeds and change feeds (numbers.go).
// The time to live is a rule of the collection (rule.go), properties that queries filter by
// get indexes (pathindex.go), and all versions and deletes are read from the log of
// the replica set (versions.go). Definitions are in config.cosmos.databases, .containers and
// .users.
//
// # Invariants
//
//   - expired-is-absent: an expired item (ttl.go) is visible to no request
//     from that second on, whether it has been removed yet or not.
//   - lsn-order: a change feed returns nothing above the number of a write
//     that has not committed yet (catalog.Numbering).
//
// Start reading at server.go, then items.go.
package cosmos
