package cosmos

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// changeFeed serves a change feed by its mode. Errors: 400.
func (r *request) changeFeed(c *container) error {
	switch mode := r.header("A-Im"); {
	case strings.EqualFold(mode, "Incremental Feed"):
		return r.latestVersions(c)
	case strings.EqualFold(mode, "Full-Fidelity Feed"):
		return r.allVersions(c)
	default:
		return badRequest("The change feed mode '%s' is unknown.", mode)
	}
}

// latestVersions returns the items that were written since a position, each once, in
// its current version. (Cosmos DB: "Change feed in Azure Cosmos DB", latest
// version mode.)
func (r *request) latestVersions(c *container) error {
	key, err := r.keyHeader(c.key)
	if err != nil {
		return err
	}
	size, err := r.pageSize()
	if err != nil {
		return err
	}
	// What came with a range has numbers below those that this shard hands out from now on.
	if r.s.shard != nil {
		if err := r.ensureNumbers(c); err != nil {
			return err
		}
	}
	settled := c.writes.Settled() // up to here all writes are visible (invariant lsn-order)
	from := int64(0)
	switch h := strings.Trim(r.header("If-None-Match"), `"`); h {
	case "":
	case "*":
		from = settled
	default:
		if from, err = strconv.ParseInt(h, 10, 64); err != nil || from < 0 {
			return badRequest("The value of If-None-Match is not a continuation of a change feed.")
		}
	}
	since := int64(0)
	if h := r.header("If-Modified-Since"); h != "" && r.header("If-None-Match") == "" {
		t, err := http.ParseTime(h)
		if err != nil {
			return badRequest("The value of If-Modified-Since is not a date.")
		}
		since = t.Unix()
	}
	rows, place, err := r.changes(c, key, from, settled, since, size)
	if err != nil {
		return err
	}
	r.w.Header().Set("Etag", `"`+strconv.FormatInt(place, 10)+`"`)
	if len(rows) == 0 {
		return r.send(http.StatusNotModified, nil)
	}
	r.charge = chargeQuery
	return r.sendRows(c.rid, "Documents", rows)
}

// changes reads a page of the change feed after from, up to settled, and returns where
// it ended.
func (r *request) changes(c *container, key []bson.Value, from, settled, since int64, size int) (rows []bson.Value, place int64, err error) {
	var b bson.Builder
	b.OpenArray("$and")
	b.OpenDoc("0").OpenDoc(fieldLSN).Int64("$gt", from).Int64("$lte", settled).Close().Close()
	if key != nil {
		b.Doc("1", c.key.partition(key))
	}
	if r.cluster != nil && r.cluster.within != nil {
		b.Doc("2", r.cluster.within)
	}
	filter := b.Close().Finish()
	place = settled
	if r.s.shard != nil {
		place = max(place, from) // a write of before the range came may be in progress
	}
	part, err := r.part(c)
	if err != nil {
		return nil, 0, err
	}
	bytes, hold := 0, r.held.Hold(nil)
	sort := new(bson.Builder).Int32(fieldLSN, 1).Finish()
	_, err = r.find(c.collection, filter, sort, 0, func(d bson.Doc) (bool, error) {
		lsn, _ := bson.ExactInt64(d.Lookup(fieldLSN))
		// The rows are stored documents, which are converted to JSON.
		if fits, err := hold.Spilling((1 + pageCopies) * bytes); len(rows) >= size || bytes >= maxPageBytes || !fits || err != nil {
			place = lsn - 1
			return false, nil
		}
		written, _ := bson.ExactInt64(d.Lookup("_ts"))
		if c.ttl.expires(d) <= r.expiryTime || written < since || !part.has(d) {
			return true, nil
		}
		b := new(bson.Builder)
		for name, v := range present(d).All() {
			if name != fieldLSN { // which is the feed's here
				b.Value(name, v)
			}
		}
		item := b.Int64(fieldLSN, lsn).Finish()
		rows = append(rows, bson.Document(item))
		bytes += len(item)
		return true, nil
	})
	return rows, place, err
}
