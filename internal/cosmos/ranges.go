package cosmos

import (
	"net/http"

	"github.com/mayflydb/mayfly/internal/bson"
)

// getRanges serves …/pkranges: there is one range, which never changes, so that a
// client which follows the changes gets none after the first response.
func (r *request) getRanges() error {
	c, err := r.container()
	if err != nil {
		return err
	}
	const etag = `"00000000-0000-0000-0000-000000000001"`
	r.w.Header().Set("Etag", etag)
	if r.header("If-None-Match") == etag {
		return r.send(http.StatusNotModified, nil)
	}
	rid := encodeRID(append(decodeRID(c.rid), 2, 0, 0, 0, 0, 0, 0, 0x50))
	var b bson.Builder
	b.String("_rid", rid).String("id", "0").String("_etag", etag).String("minInclusive", "").String("maxExclusive", "FF").Int32("ridPrefix", 0)
	b.String("_self", c.selfLink+"pkranges/"+rid+"/").Int32("throughputFraction", 1).String("status", "online").Array("parents", bson.Empty).Int64("_ts", c.seconds)
	return r.sendFeed(c.rid, "PartitionKeyRanges", []bson.Doc{b.Finish()})
}
