package cosmos

import (
	"net/http"
	"strconv"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/query/nosql"
)

// newOffer returns the offer in the headers of a create, nil for none: {id, content}.
// (Cosmos DB: "Offers".) Throughput is stored and returned, but limits nothing. Errors:
// 400.
func (r *request) newOffer() (bson.Doc, error) {
	var b bson.Builder
	b.String("id", newOfferID())
	if t := r.header("X-Ms-Offer-Throughput"); t != "" {
		n, err := strconv.ParseInt(t, 10, 32)
		if err != nil || n < 400 || n%100 != 0 {
			return nil, badRequest("The offer throughput '%s' is invalid: it must be a multiple of 100, and at least 400.", t)
		}
		return b.OpenDoc("content").Int("offerThroughput", n).Close().Finish(), nil
	}
	if t := r.header("X-Ms-Cosmos-Offer-Autopilot-Settings"); t != "" {
		d, err := parseObject([]byte(t))
		if err != nil {
			return nil, err
		}
		content := new(bson.Builder).Int("offerThroughput", 400).Doc("offerAutopilotSettings", d).Finish()
		return b.Doc("content", content).Finish(), nil
	}
	return nil, nil
}

func newOfferID() string {
	id := bson.NewObjectID()
	return encodeRID(id[8:12])
}

// changedOffer is an offer with new content.
func changedOffer(id string, content bson.Value, seconds int64) bson.Doc {
	return new(bson.Builder).String("id", id).Value("content", content).String("etag", newETag(seconds)).Int64("ts", seconds).Finish()
}

// offerDoc returns an offer for clients, with its resource. One that was never changed has the
// etag and the time that the resource was made with.
func offerDoc(o bson.Doc, rid, self, etag string, seconds int64) bson.Doc {
	id := o.Lookup("id").Str()
	if own := o.Lookup("etag"); own.Type == bson.TypeString {
		etag, seconds = own.Str(), o.Lookup("ts").Int64()
	}
	var b bson.Builder
	b.String("resource", self).String("offerType", "Invalid").String("offerResourceId", rid).String("offerVersion", "V2").Value("content", o.Lookup("content"))
	b.String("id", id).String("_rid", id).String("_self", "offers/"+id+"/").String("_etag", etag)
	return b.Int64("_ts", seconds).Finish()
}

// eachOffer calls f for all offers, with the position of each.
func (g *registry) eachOffer(f func(offer bson.Doc, d *database, c *container)) {
	for _, d := range g.databases() {
		if d.offer != nil {
			f(offerDoc(d.offer, d.rid, "dbs/"+d.rid+"/", d.etag, d.seconds), d, nil)
		}
		for _, c := range g.list(d) {
			if c.offer != nil {
				f(offerDoc(c.offer, c.rid, c.selfLink, c.etag, c.seconds), d, c)
			}
		}
	}
}

func (r *request) offers() []bson.Doc {
	var docs []bson.Doc
	r.s.registry.eachOffer(func(o bson.Doc, _ *database, _ *container) { docs = append(docs, o) })
	return docs
}

func (r *request) listOffers() error { return r.sendFeed("", "Offers", r.offers()) }

func (r *request) queryOffers() error {
	if !r.isQuery() {
		return errMethod
	}
	body, err := r.object()
	if err != nil {
		return err
	}
	return r.queryResources(body, "", "Offers", r.offers())
}

// findOffer finds the offer that the path names. Errors: 404.
func (r *request) findOffer() (offer bson.Doc, d *database, c *container, err error) {
	r.s.registry.eachOffer(func(o bson.Doc, od *database, oc *container) {
		if o.Lookup("id").Str() == r.path.offer {
			offer, d, c = o, od, oc
		}
	})
	if offer == nil {
		err = errNotFound
	}
	return offer, d, c, err
}

func (r *request) getOffer() error {
	o, _, _, err := r.findOffer()
	if err != nil {
		return err
	}
	return r.resource(http.StatusOK, o)
}

// putOffer changes a throughput.
func (r *request) putOffer(body bson.Doc) error {
	g := r.s.registry
	old, d, c, err := r.findOffer()
	if err != nil {
		return err
	}
	if err := r.ifMatch(old.Lookup("_etag").Str()); err != nil {
		return err
	}
	content := body.Lookup("content")
	if content.Type != bson.TypeDocument {
		return badRequest("The offer has no content: %s", nosql.AppendJSONDocument(nil, body))
	}
	changed := changedOffer(r.path.offer, content, r.written)
	if c == nil {
		n := *d
		n.offer = changed
		if err := g.put(r.Context(), databasesNamespace, n.stored()); err != nil {
			return err
		}
		g.publish(&n)
		return r.resource(http.StatusOK, offerDoc(changed, d.rid, "dbs/"+d.rid+"/", "", 0))
	}
	n := *c
	n.offer = changed
	if err := g.put(r.Context(), containersNamespace, n.stored()); err != nil {
		return err
	}
	g.publish(d.with(n.id, &n))
	return r.resource(http.StatusOK, offerDoc(changed, c.rid, c.selfLink, "", 0))
}
