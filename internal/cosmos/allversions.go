package cosmos

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

var (
	errNoRetention    = badRequest("The change feed mode 'Full-Fidelity Feed' needs a container whose changeFeedPolicy has a retentionDuration.")
	errNoPlace        = badRequest("The change feed of all versions and deletes starts from now, or from a continuation: If-None-Match is missing.")
	errNoContinuation = badRequest("The value of If-None-Match is not a continuation of a change feed of all versions and deletes.")
)

// allVersions returns every write and delete since a position, in order. (Cosmos DB:
// "Change feed modes", all versions and deletes.) It continues from a continuation that
// is still retained, or starts from now. Errors: 400.
func (r *request) allVersions(c *container) error {
	if err := r.s.checkRetention(c); err != nil {
		return err
	}
	if c.retention == 0 {
		return errNoRetention
	}
	key, err := r.keyHeader(c.key)
	if err != nil {
		return err
	}
	size, err := r.pageSize()
	if err != nil {
		return err
	}
	from, err := r.versionPlace(c)
	if err != nil {
		return err
	}
	rows, end, err := r.versions(c, key, from, size)
	if err != nil {
		return err
	}
	r.w.Header().Set("Etag", `"`+end.String()+`"`)
	if rows.n == 0 {
		return r.send(http.StatusNotModified)
	}
	r.charge = chargeQuery
	return r.sendFeedOf(c.rid, "Documents", rows)
}

// versionPlace returns where the page begins. Errors: 400.
func (r *request) versionPlace(c *container) (from versionPlace, err error) {
	h := strings.Trim(r.header("If-None-Match"), `"`)
	switch h {
	case "":
		return from, errNoPlace
	case "*":
		_, t, err := r.s.o.Member.FeedNow()
		return versionPlace{time: t + 1, lsn: c.writes.Settled()}, err
	}
	var seconds, counter uint32
	n, err := fmt.Sscanf(h, "%d.%d.%d.%d", &seconds, &counter, &from.told, &from.lsn)
	from.time = uint64(seconds)<<32 | uint64(counter)
	if err != nil || n != 4 || from.told < 0 || from.lsn < 0 || from.String() != h {
		return from, errNoContinuation
	}
	return from, r.retained(c, int64(seconds))
}

// retained refuses a continuation of a time that is not retained. Errors: 400.
func (r *request) retained(c *container, seconds int64) error {
	if r.expiryTime-seconds > int64(c.retention.Seconds()) {
		return badRequest("The continuation is older than the container's retentionDuration of %d minutes.", int64(c.retention.Minutes()))
	}
	return nil
}

// String is the place as a continuation: the time's seconds and counter, the number of
// events of that time, the number of the last write.
func (p versionPlace) String() string {
	return fmt.Sprintf("%d.%d.%d.%d", p.time>>32, uint32(p.time), p.told, p.lsn)
}

// show writes the properties of a partition key, as an item's _id has them.
func (k *partitionKey) show(b *bson.Builder, key bson.Doc) {
	for i, p := range k.paths {
		if v := key.Lookup(bson.Index(i)); v.Type != none.Type {
			b.Value(strings.Join(p, "/"), v)
		}
	}
}
