package cosmos

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// keyRange is a range of the hashes of partition keys: all of them on a server that is in no
// cluster, a chunk in a cluster. Its bounds are texts in which hashes have the order of the
// numbers that they are, from "" to "FF"; those of the service's SDKs, which compute others,
// lie between them, too.
type keyRange struct {
	min, max  string
	low, high *int64 // the same as numbers; nil for no bound
}

// lowest and highest bound the hashes.
const (
	lowest  = ""
	highest = "FF"
)

// boundText returns the text of a hash: 17 digits, the first of which is below 4.
func boundText(hash int64) string {
	u := uint64(hash) ^ 1<<63
	return fmt.Sprintf("%X%016X", u>>62, u<<2)
}

// id names the range. A split or a merge makes ranges with other ids, a move does not.
func (k keyRange) id() string {
	if k.min == lowest && k.max == highest {
		return "0"
	}
	return k.min + "-" + k.max
}

// ranges returns the ranges of a container, and a text that is another one whenever they
// change: as a router knows them, or as they are now.
func (r *request) ranges(now bool) (all []keyRange, version string, err error) {
	k := keyRange{min: lowest, max: highest}
	if r.s.o.Cluster == nil {
		return []keyRange{k}, "00000000-0000-0000-0000-000000000001", nil
	}
	bounds, version, err := r.s.o.Cluster.Bounds(r.Context(), namespace(r.path.db, r.path.container).String(), now)
	if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
		err = errNotFound
	}
	if err != nil {
		return nil, "", err
	}
	for _, b := range bounds {
		k.max, k.high = boundText(b), &b
		all = append(all, k)
		k.min, k.low = k.max, k.high
	}
	k.max, k.high = highest, nil
	return append(all, k), version, nil
}

// getRanges serves …/pkranges. A client that follows the changes gets none while the ranges
// are as they were.
func (r *request) getRanges() error {
	c, err := r.container()
	if err != nil {
		return err
	}
	all, version, err := r.ranges(true)
	if err != nil {
		return err
	}
	etag := `"` + version + `"`
	r.w.Header().Set("Etag", etag)
	if r.header("If-None-Match") == etag {
		return r.send(http.StatusNotModified, nil)
	}
	docs := make([]bson.Doc, len(all))
	for i, k := range all {
		rid := encodeRID(append(decodeRID(c.rid), byte(i+2), byte((i+2)>>8), byte((i+2)>>16), 0, 0, 0, 0, 0x50))
		var b bson.Builder
		b.String("_rid", rid).String("id", k.id()).String("_etag", etag).String("minInclusive", k.min).String("maxExclusive", k.max).Int32("ridPrefix", int32(i))
		b.String("_self", c.selfLink+"pkranges/"+rid+"/").Double("throughputFraction", 1/float64(len(all))).String("status", "online").Array("parents", bson.Empty)
		docs[i] = b.Int64("_ts", c.seconds).Finish()
	}
	return r.sendFeed(c.rid, "PartitionKeyRanges", docs)
}

// errGone has SDKs read the ranges again.
var errGone = &Error{Status: http.StatusGone, Substatus: substatusRangeGone, Message: "The requested resource is no longer available at the server."}

// rangeHeader names a range by its id; startHeader and endHeader bound a part of it.
const (
	rangeHeader = "X-Ms-Documentdb-Partitionkeyrangeid"
	startHeader = "X-Ms-Start-Epk"
	endHeader   = "X-Ms-End-Epk"
)

// scope returns the range, or the part of it, that the request names: all if it names none.
// Errors: 410 for a range that was split or merged, 400 for bounds that are not this server's.
func (r *request) scope() (k keyRange, err error) {
	k.min, k.max = lowest, highest
	id := r.header(rangeHeader)
	if id == "" || r.s.o.Cluster == nil {
		return k, nil
	}
	if _, after, ok := strings.Cut(id, ","); ok { // behind the container's resource id
		id = after
	}
	found := false
	for _, now := range []bool{false, true} {
		all, _, err := r.ranges(now)
		if err != nil {
			return k, err
		}
		i := slices.IndexFunc(all, func(k keyRange) bool { return k.id() == id })
		if found = i >= 0; found {
			k = all[i]
			break
		}
	}
	if !found {
		return k, errGone
	}
	if from := r.header(startHeader); from > k.min {
		k.min = from
		if k.low, err = parseBound(from); err != nil {
			return k, err
		}
	}
	if to := r.header(endHeader); to != "" && to < k.max {
		k.max = to
		k.high, err = parseBound(to)
	}
	return k, err
}

// parseBound is the inverse of boundText. Errors: 400.
func parseBound(text string) (*int64, error) {
	bad := badRequest("The bound '%s' is none of a partition key range of this server.", text)
	if len(text) != 17 {
		return nil, bad
	}
	high, err := strconv.ParseUint(text[:1], 16, 64)
	low, err2 := strconv.ParseUint(text[1:], 16, 64)
	if err != nil || err2 != nil {
		return nil, bad
	}
	hash := int64((high<<62 | low>>2) ^ 1<<63)
	if boundText(hash) != text {
		return nil, bad
	}
	return &hash, nil
}

// has reports whether the range has a partition.
func (k keyRange) has(key []bson.Value) bool {
	hash := schema.HashOf(bson.Document(keyDocument(key...)), nil)
	return (k.low == nil || *k.low <= hash) && (k.high == nil || hash < *k.high)
}

// append adds the bounds to a command.
func (k keyRange) append(b *bson.Builder) {
	if k.low != nil {
		b.Int64("low", *k.low)
	}
	if k.high != nil {
		b.Int64("high", *k.high)
	}
}

// filter returns a filter for the items in the range, nil for all.
func (k keyRange) filter() bson.Doc { return k.filterOf("$_id.p") }

// filterOf is filter of the partition key at a path.
func (k keyRange) filterOf(path string) bson.Doc {
	if k.low == nil && k.high == nil {
		return nil
	}
	var b bson.Builder
	b.OpenDoc("$expr").OpenArray("$and")
	n := 0
	for _, end := range []struct {
		operator string
		bound    *int64
	}{{"$gte", k.low}, {"$lt", k.high}} {
		if end.bound != nil {
			b.OpenDoc(bson.Index(n)).OpenArray(end.operator).OpenDoc("0").String("$toHashedIndexKey", path).Close().Int64("1", *end.bound).Close().Close()
			n++
		}
	}
	return b.Close().Close().Finish()
}
