package cosmos

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// allVersions returns every write and delete since a position, in order. (Cosmos DB:
// "Change feed modes", all versions and deletes.) It continues from a continuation that
// is still retained, or starts from now. Errors: 400.
func (r *request) allVersions(c *container) error {
	if c.log == nil {
		return badRequest("The change feed mode 'Full-Fidelity Feed' needs a container whose changeFeedPolicy has a retentionDuration.")
	}
	key, err := r.keyHeader(c.key)
	if err != nil {
		return err
	}
	size, err := r.pageSize()
	if err != nil {
		return err
	}
	settled := c.writes.Settled()
	from := settled
	switch h := strings.Trim(r.header("If-None-Match"), `"`); h {
	case "":
		return badRequest("The change feed of all versions and deletes starts from now, or from a continuation: If-None-Match is missing.")
	case "*":
	default:
		number, at, ok := strings.Cut(h, "@")
		n, err1 := strconv.ParseInt(number, 10, 64)
		seconds, err2 := strconv.ParseInt(at, 10, 64)
		if !ok || err1 != nil || err2 != nil || n < 0 {
			return badRequest("The value of If-None-Match is not a continuation of a change feed of all versions and deletes.")
		}
		if r.expiryTime-seconds > int64(c.retention.Seconds()) {
			return badRequest("The continuation is older than the container's retentionDuration of %d minutes.", int64(c.retention.Minutes()))
		}
		from = n
	}
	rows, place, err := r.versions(c, key, from, settled, size)
	if err != nil {
		return err
	}
	r.w.Header().Set("Etag", fmt.Sprintf(`"%d@%d"`, place, r.expiryTime))
	if rows.n == 0 {
		return r.send(http.StatusNotModified)
	}
	r.charge = chargeQuery
	return r.sendFeedOf(c.rid, "Documents", rows)
}

// versions reads a page of the log after from, up to settled, and returns where it ended.
func (r *request) versions(c *container, key []bson.Value, from, settled int64, size int) (rows *rowWriter, place int64, err error) {
	var b bson.Builder
	b.OpenDoc("_id").Int64("$gt", from).Int64("$lte", settled).Close()
	if len(key) == len(c.key.paths) {
		b.Doc("p", keyDocument(key...))
	} else {
		for i, v := range key {
			b.OpenDoc("p."+bson.Index(i)).Value("$eq", v).Close()
		}
	}
	rows, place = &rowWriter{hold: r.held.Hold(nil)}, settled
	sort := new(bson.Builder).Int32("_id", 1).Finish()
	_, err = r.find(c.log, b.Finish(), sort, 0, func(d bson.Doc) (bool, error) {
		if rows.full(size) {
			place = d.Lookup("_id").Int64() - 1
			return false, nil
		}
		rows.add(bson.Document(c.shownVersion(d)))
		return true, nil
	})
	return rows, place, err
}

// shownVersion formats an entry of the log for clients.
func (c *container) shownVersion(d bson.Doc) bson.Doc {
	var b bson.Builder
	if current := d.Lookup("current"); current.IsMissing() {
		b.Doc("current", bson.Empty)
	} else {
		b.Value("current", current)
	}
	b.OpenDoc("metadata").Value("lsn", d.Lookup("_id")).Value("crts", d.Lookup("t")).Value("operationType", d.Lookup("op"))
	if prev := d.Lookup("prev"); prev.IsMissing() {
		b.Int32("previousImageLSN", 0)
	} else {
		b.Value("previousImageLSN", prev)
	}
	if d.Lookup("op").Str() == "delete" {
		b.Bool("timeToLiveExpired", d.Lookup("ttl").Truthy()).Value("id", d.Lookup("id")).OpenDoc("partitionKey")
		for i, p := range c.key.paths {
			v := d.Lookup("p").Doc().Lookup(bson.Index(i))
			if v.Type != none.Type {
				b.Value(strings.Join(p, "/"), v)
			}
		}
		b.Close()
	}
	b.Close()
	return b.Value("previous", d.Lookup("previous")).Finish()
}
