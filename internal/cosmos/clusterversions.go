package cosmos

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/changestream"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// clusterPlace is a place in the feed on a cluster: all up to a token of the change stream was
// told, and of the next event the first versions. lsn is as in versionPlace.
type clusterPlace struct {
	token string // "_data" of the token
	told  int
	lsn   int64
}

// String is the place as a continuation.
func (p clusterPlace) String() string { return fmt.Sprintf("%s.%d.%d", p.token, p.told, p.lsn) }

// clusterPlace returns where the page begins, and the token behind which the stream goes on; nil for
// now. Errors: 400.
func (r *request) clusterPlace(c *container) (from clusterPlace, after bson.Doc, err error) {
	h := strings.Trim(r.header("If-None-Match"), `"`)
	switch h {
	case "":
		return from, nil, errNoPlace
	case "*":
		return from, nil, nil
	}
	token, rest, _ := strings.Cut(h, ".")
	n, err := fmt.Sscanf(rest, "%d.%d", &from.told, &from.lsn)
	from.token = token
	if err != nil || n != 2 || from.told < 0 || from.lsn < 0 || from.String() != h {
		return from, nil, errNoContinuation
	}
	after = tokenDoc(token)
	t, err := changestream.ParseToken(after)
	if err != nil {
		return from, nil, errNoContinuation
	}
	return from, after, r.retained(c, int64(t.Time>>32))
}

func tokenDoc(data string) bson.Doc { return new(bson.Builder).String("_data", data).Finish() }

// data is a token as a continuation has it.
func data(token bson.Doc) string {
	if v := token.Lookup("_data"); v.Type == bson.TypeString {
		return v.Str()
	}
	return ""
}

// versionsInCluster answers a feed of all versions and deletes from the change stream over all
// shards: of a partition, or of a range. What lay on other shards before a move is told once, in
// its order. Errors: 400, 410.
func (r *request) versionsInCluster(c *container, key []bson.Value) error {
	if c.retention == 0 {
		return errNoRetention
	}
	size, err := r.pageSize()
	if err != nil {
		return err
	}
	from, after, err := r.clusterPlace(c)
	if err != nil {
		return err
	}
	in := keyRange{}
	if len(key) < len(c.key.paths) {
		if in, err = r.scope(); err != nil {
			return err
		}
	}
	feed, err := r.s.o.Cluster.Feed(r.Context(), namespace(r.path.db, r.path.container).String(), after, eventsOf(key, in))
	if err != nil {
		return r.feedError(err)
	}
	defer feed.Close()
	if after == nil {
		from.token = data(feed.Token())
	}
	p := &versionPage{c: c, key: key, size: size, rows: &rowWriter{hold: r.held.Hold(nil)}, at: versionPlace{lsn: from.lsn}}
	end, err := r.readFeed(r.Context(), feed, p, from)
	if err != nil {
		return r.feedError(err)
	}
	r.w.Header().Set("Etag", `"`+end.String()+`"`)
	if p.rows.n == 0 {
		return r.send(http.StatusNotModified)
	}
	r.charge = chargeQuery
	return r.sendFeedOf(c.rid, "Documents", p.rows)
}

// eventsOf is a filter for the events of a partition, or of those whose keys begin with key, within
// a range, and for those that are about the collection; nil for all.
func eventsOf(key []bson.Value, in keyRange) bson.Doc {
	b := new(bson.Builder).Fields(in.filterOf("$documentKey._id.p"))
	for i, v := range key {
		b.Value("documentKey._id.p."+bson.Index(i), v)
	}
	is := b.Finish()
	if is.IsEmpty() {
		return nil
	}
	return new(bson.Builder).OpenArray("$or").OpenDoc("0").OpenDoc("documentKey").Bool("$exists", false).Close().Close().Doc("1", is).Close().Finish()
}

// readFeed fills a page, and returns where it ended.
func (r *request) readFeed(ctx context.Context, feed changestream.Feed, p *versionPage, from clusterPlace) (end clusterPlace, err error) {
	end, skip := from, from.told
	for scanned := 0; scanned < maxScanned; scanned++ {
		d, err := feed.Next(ctx)
		if err != nil {
			return end, err
		}
		if d == nil {
			end.token, end.told, end.lsn = data(feed.Token()), 0, p.at.lsn
			return end, nil
		}
		token := nested(d, "_id").Clone()
		versions, err := eventVersions(d)
		if err != nil {
			return end, err
		}
		for i, v := range versions {
			if i < skip {
				continue
			}
			id := nested(nested(d, "documentKey"), "_id")
			if have := nested(id, "p").Slice(); len(have) < len(p.key) || !sameKey(have[:len(p.key)], p.key) {
				continue
			}
			if p.rows.full(p.size) {
				end.told, end.lsn = i, p.at.lsn
				return end, nil
			}
			t, err := changestream.ParseToken(token)
			if err != nil {
				return end, err
			}
			p.rows.add(bson.Document(p.shown(v, id, int64(t.Time>>32))))
		}
		end, skip = clusterPlace{token: data(token), lsn: p.at.lsn}, 0
	}
	return end, nil
}

// eventVersions are what an event of the change stream is in the feed. Errors: 400 without
// images, 404 where the collection is gone.
func eventVersions(d bson.Doc) ([]version, error) {
	now, before := optional(d, "fullDocument"), optional(d, "fullDocumentBeforeChange")
	switch kind := d.Lookup("operationType"); {
	case kind.Type != bson.TypeString:
		return nil, nil
	case kind.Str() == "insert":
		return []version{{op: "create", item: now}}, nil
	case kind.Str() == "update" || kind.Str() == "replace":
		if now == nil || before == nil {
			return nil, errNoImages
		}
		if bson.Equal(before.Lookup(fieldNumber), now.Lookup(fieldNumber)) {
			return []version{{op: "replace", old: before, item: now}}, nil
		}
		// A new item took the place of one that had expired and was still there.
		return []version{{op: "delete", old: before, expired: true}, {op: "create", item: now}}, nil
	case kind.Str() == "delete":
		if before == nil {
			return nil, errNoImages
		}
		return []version{{op: "delete", old: before, expired: d.Has("expired")}}, nil
	case kind.Str() == "drop" || kind.Str() == "rename" || kind.Str() == "dropDatabase" || kind.Str() == "invalidate":
		return nil, errNotFound
	}
	return nil, nil
}

// optional is the document in a field, nil if there is none.
func optional(d bson.Doc, name string) bson.Doc {
	if v := d.Lookup(name); v.Type == bson.TypeDocument {
		return v.Doc()
	}
	return nil
}

// feedError is the error for the client where the change stream has failed.
func (r *request) feedError(err error) error {
	if mongoerr.Is(err, mongoerr.ChangeStreamHistoryLost, mongoerr.ChangeStreamFatalError) {
		return badRequest("The continuation is older than the logs of the cluster reach back, or they do not list what has expired: %s", mongoerr.From(err).Message)
	}
	return r.unanswered(err)
}
