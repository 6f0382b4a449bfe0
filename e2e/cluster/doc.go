// Package cluster runs whole clusters as processes, config servers, shards and routers,
// and looks at them through drivers. It has tests only.
package cluster
