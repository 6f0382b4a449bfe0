package router_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestStatsOfDatabase: dbStats and dataSize have the fields, and the types, of mongos's.
func TestStatsOfDatabase(t *testing.T) {
	c := newCluster(t, 2)
	c.do("admin", `{shardCollection: "app.c", key: {_id: "hashed"}}`)
	c.do("app", `{insert: "c", documents: [{_id: 1}, {_id: 2}, {_id: 3}, {_id: 4}, {_id: 5}, {_id: 6}, {_id: 7}, {_id: 8}]}`)
	var parts []string
	for name, v := range c.do("app", `{dbStats: 1, scale: 2, freeStorage: 1}`).All() {
		switch name {
		case "collections", "objects", "avgObjSize", "dataSize", "indexes", "scaleFactor", "db":
			parts = append(parts, fmt.Sprintf("%s: %s %s", name, v.Type, v))
		case "ok", "$clusterTime", "operationTime":
		default:
			parts = append(parts, fmt.Sprintf("%s: %s", name, v.Type))
		}
	}
	want := `raw: object, db: string "app", collections: long 2, views: long, objects: long 8, avgObjSize: double 14.0, dataSize: double 56.0, ` +
		`storageSize: double, freeStorageSize: double, indexes: long 4, indexSize: double, indexFreeStorageSize: double, totalSize: double, totalFreeStorageSize: double, ` +
		`scaleFactor: long 2, fsUsedSize: double, fsTotalSize: double`
	if got := strings.Join(parts, ", "); got != want {
		t.Errorf("dbStats:\n%s, want\n%s", got, want)
	}
	d := c.do("app", `{dataSize: "app.c", estimate: true}`)
	if got := fmt.Sprint(d.Lookup("estimate"), d.Lookup("size").Type, d.Lookup("size"), d.Lookup("numObjects").Type, d.Lookup("numObjects"), d.Lookup("millis").Type); got != "true long 112 long 8 long" {
		t.Errorf("dataSize: %s", d)
	}
	c.do("admin", `{getParameter: 1, authenticationMechanisms: 1, KeysRotationIntervalSec: 1}`)
}
