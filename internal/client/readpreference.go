package client

import (
	"math/rand/v2"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// ReadPreference says which members of a set are eligible for a call. The zero value is
// the primary.
type ReadPreference struct {
	Mode Mode
	// Tags is a list of tag sets. The first one that any member matches selects the
	// members; without tag sets all are eligible.
	Tags []bson.Doc
	// MaxStaleness is the maximum lag of a secondary; 0 for no bound.
	MaxStaleness time.Duration
}

// Mode is the mode of a read preference.
type Mode uint8

// The modes.
const (
	Primary Mode = iota
	PrimaryPreferred
	Secondary
	SecondaryPreferred
	Nearest
)

var modes = map[string]Mode{
	"primary": Primary, "primaryPreferred": PrimaryPreferred, "secondary": Secondary, "secondaryPreferred": SecondaryPreferred, "nearest": Nearest,
}

// String returns the mode as commands spell it.
func (m Mode) String() string {
	return [...]string{"primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"}[m]
}

// ParseReadPreference reads $readPreference; the zero Doc is the primary. Errors: 2 for
// an unknown mode, or tags that are not documents.
func ParseReadPreference(d bson.Doc) (ReadPreference, error) {
	var rp ReadPreference
	if d.IsEmpty() {
		return rp, nil
	}
	name := d.Lookup("mode")
	mode, ok := modes[name.Str()]
	if name.Type != bson.TypeString || !ok {
		return rp, mongoerr.New(mongoerr.BadValue, "Could not parse $readPreference mode '%s'", name)
	}
	rp.Mode = mode
	if tags := d.Lookup("tags"); tags.Type == bson.TypeArray {
		for v := range tags.Doc().Values() {
			if v.Type != bson.TypeDocument {
				return rp, mongoerr.New(mongoerr.BadValue, "tags of a read preference are documents, found %s", v)
			}
			rp.Tags = append(rp.Tags, v.Doc().Clone())
		}
	}
	if s := d.Lookup("maxStalenessSeconds"); s.IsNumber() {
		rp.MaxStaleness = time.Duration(bson.ClampToInt64(s)) * time.Second
	}
	return rp, nil
}

// Append appends $readPreference, which members other than the primary require.
func (rp *ReadPreference) Append(b *bson.Builder) {
	if rp.Mode == Primary {
		return
	}
	b.OpenDoc("$readPreference").String("mode", rp.Mode.String())
	if len(rp.Tags) > 0 {
		b.OpenArray("tags")
		for i, t := range rp.Tags {
			b.Doc(bson.Index(i), t)
		}
		b.Close()
	}
	if rp.MaxStaleness > 0 {
		b.Int64("maxStalenessSeconds", int64(rp.MaxStaleness/time.Second))
	}
	b.Close()
}

// nearbyTime is the width of the latency window: any eligible member is chosen whose
// round-trip time exceeds the lowest by at most this. (Specification: "Server Selection",
// localThresholdMS.)
const nearbyTime = 15 * time.Millisecond

// choose returns a member that rp allows, or nil. primary may be nil, too.
func (rp *ReadPreference) choose(primary *member, all []*member) *member {
	switch rp.Mode {
	case Primary:
		return primary
	case PrimaryPreferred:
		if primary != nil {
			return primary
		}
	case SecondaryPreferred:
		if m := rp.among(primary, all, false); m != nil {
			return m
		}
		return primary
	}
	return rp.among(primary, all, rp.Mode == Nearest)
}

// among returns a nearby member of the secondaries, and of the primary if it is eligible,
// that matches the tags and is not too stale.
func (rp *ReadPreference) among(primary *member, all []*member, withPrimary bool) *member {
	var able []*member
	for _, m := range all {
		if m.role == rolePrimary && m == primary && withPrimary || m.role == roleSecondary && rp.fresh(m, primary, all) {
			able = append(able, m)
		}
	}
	if len(rp.Tags) == 0 {
		return near(able)
	}
	for _, tags := range rp.Tags {
		var tagged []*member
		for _, m := range able {
			if m.has(tags) {
				tagged = append(tagged, m)
			}
		}
		if len(tagged) > 0 {
			return near(tagged)
		}
	}
	return nil
}

// fresh reports whether m is within MaxStaleness of the primary or, without a primary, of
// the most advanced secondary. (Specification: "Max Staleness".)
func (rp *ReadPreference) fresh(m, primary *member, all []*member) bool {
	if rp.MaxStaleness == 0 {
		return true
	}
	var behind time.Duration
	if primary != nil {
		behind = m.seen.Sub(m.lastWrite) - primary.seen.Sub(primary.lastWrite)
	} else {
		for _, o := range all {
			if o.role == roleSecondary {
				behind = max(behind, o.lastWrite.Sub(m.lastWrite))
			}
		}
	}
	return behind+heartbeat <= rp.MaxStaleness
}

func near(members []*member) *member {
	if len(members) == 0 {
		return nil
	}
	fastest := members[0].took
	for _, m := range members {
		fastest = min(fastest, m.took)
	}
	var close []*member
	for _, m := range members {
		if m.took <= fastest+nearbyTime {
			close = append(close, m)
		}
	}
	return close[rand.IntN(len(close))]
}
