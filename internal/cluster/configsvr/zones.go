package configsvr

import (
	"context"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/shard"
)

// inZone returns the ids of the shards of a zone.
func inZone(all []shardDoc, zone string) (out []string) {
	for _, sh := range all {
		if slices.Contains(sh.Zones, zone) {
			out = append(out, sh.ID)
		}
	}
	return out
}

// zoneHasRanges reports whether any collection has ranges in a zone.
func (s *Server) zoneHasRanges(zone string) (has bool, err error) {
	err = s.each(tags, func(d bson.Doc) error {
		has = has || text(d, "tag") == zone
		return nil
	})
	return has, err
}

// addShardToZone adds a shard to a zone. (Manual: addShardToZone.)
func (s *Server) addShardToZone() *command.Command {
	return newCommand("AddShardToZone", command.String(""), func(ctx context.Context, op *command.Op) error {
		return s.change(ctx, func() ([]write, error) {
			sh, err := s.shard(value(op))
			zone := op.Args.Str("zone")
			if err != nil || slices.Contains(sh.Zones, zone) {
				return nil, err
			}
			return []write{putZones(sh, append(sh.Zones, zone))}, nil
		})
	}, command.String("zone").Required())
}

func putZones(sh shardDoc, zones []string) write {
	tags := new(bson.Builder).Strings("tags", zones...).Finish().Lookup("tags")
	if len(zones) == 0 {
		return put(shards, with(sh.doc, field{"tags", bson.Value{}}))
	}
	return put(shards, with(sh.doc, field{"tags", tags}))
}

// removeShardFromZone removes a shard from a zone. (Manual: removeShardFromZone.)
func (s *Server) removeShardFromZone() *command.Command {
	return newCommand("RemoveShardFromZone", command.String(""), func(ctx context.Context, op *command.Op) error {
		return s.change(ctx, func() ([]write, error) {
			sh, err := s.shard(value(op))
			zone := op.Args.Str("zone")
			at := slices.Index(sh.Zones, zone)
			if err != nil || at < 0 {
				return nil, err
			}
			all, err := s.shards()
			if err != nil {
				return nil, err
			}
			ranges, err := s.zoneHasRanges(zone)
			if err != nil {
				return nil, err
			}
			if err := shard.CanLeaveZone(sh.ID, zone, inZone(all, zone), ranges); err != nil {
				return nil, err
			}
			return []write{putZones(sh, slices.Delete(slices.Clone(sh.Zones), at, at+1))}, nil
		})
	}, command.String("zone").Required())
}

// updateZoneKeyRange assigns a range to a zone, or removes it from one. (Manual:
// updateZoneKeyRange.)
func (s *Server) updateZoneKeyRange() *command.Command {
	return newCommand("UpdateZoneKeyRange", command.String(""), s.runUpdateZoneKeyRange,
		command.Object("min").Required(), command.Object("max").Required(), command.Any("zone"))
}

func (s *Server) runUpdateZoneKeyRange(ctx context.Context, op *command.Op) error {
	ns, err := namespaceOf(op)
	if err != nil {
		return err
	}
	lo, hi := op.Args.Doc("min"), op.Args.Doc("max")
	zone := op.Args.Value("zone")
	if zone.Type != bson.TypeString && zone.Type != bson.TypeNull {
		return mongoerr.New(mongoerr.TypeMismatch, "\"zone\" had the wrong type. Expected string or null, found %s", zone.Type)
	}
	return s.change(ctx, func() ([]write, error) {
		if zone.Type == bson.TypeString {
			all, err := s.shards()
			if err == nil && len(inZone(all, zone.Str())) == 0 {
				err = mongoerr.New(mongoerr.ZoneNotFound, "zone %s does not exist", zone.Str())
			}
			if err != nil {
				return nil, err
			}
		}
		if s.isResharded(ns) {
			return nil, mongoerr.New(reshardInProgress, "the zones of %s are being replaced by those of reshardCollection", ns)
		}
		c, err := s.collection(ns)
		if err != nil {
			return nil, err
		}
		if c.Namespace == "" {
			return s.changeTag(value(op), lo, hi, zone)
		}
		r, err := c.Key.ZoneRange(ns, lo, hi)
		if err != nil {
			return nil, err
		}
		if zone.Type == bson.TypeString {
			zones, err := s.zones(ns, c.Key)
			if err != nil {
				return nil, err
			}
			if _, err := zones.Add(shard.Zone{Range: r, Name: zone.Str()}); err != nil {
				return nil, err
			}
		}
		if err := checkTimeBound(&c, c.Key.Doc(r.Min), c.Key.Doc(r.Max)); err != nil {
			return nil, err
		}
		return s.changeTag(c.id(), c.Key.Doc(r.Min), c.Key.Doc(r.Max), zone)
	})
}

// checkTimeBound rejects bounds within the times of a time series: the time of a zone's
// bounds is MinKey, or the end of the key space. Errors: 72.
func checkTimeBound(c *collectionDoc, lo, hi bson.Doc) error {
	if c.Timeseries == nil {
		return nil
	}
	for _, d := range []bson.Doc{lo, hi} {
		if v := d.Lookup("control.min." + c.Timeseries.TimeField); !v.IsMissing() && v.Type != bson.TypeMinKey && v.Type != bson.TypeMaxKey {
			return mongoerr.New(mongoerr.InvalidOptions, "the time field of a zone's bounds of a sharded time-series collection must be MinKey: %s", d)
		}
	}
	return nil
}

// changeTag writes or removes a range in config.tags.
func (s *Server) changeTag(ns string, lo, hi bson.Doc, zone bson.Value) ([]write, error) {
	if err := shard.CheckZoneBounds(lo, hi); err != nil {
		return nil, err
	}
	docs, err := s.tagDocs(ofBuckets(ns))
	if err != nil {
		return nil, err
	}
	same := func(d bson.Doc) bool {
		return d.Lookup("min").String() == lo.String() && d.Lookup("max").String() == hi.String()
	}
	i := slices.IndexFunc(docs, same)
	switch {
	case zone.Type == bson.TypeNull && i < 0:
		return nil, nil
	case zone.Type == bson.TypeNull:
		return []write{remove(tags, docs[i].Lookup("_id"))}, nil
	case i >= 0 && text(docs[i], "tag") == zone.Str():
		return nil, nil
	case i >= 0:
		return nil, overlaps(ns, lo, hi, docs[i])
	}
	for _, d := range docs {
		if bson.Compare(d.Lookup("min"), bson.Document(hi)) < 0 && bson.Compare(bson.Document(lo), d.Lookup("max")) < 0 {
			return nil, overlaps(ns, lo, hi, d)
		}
	}
	b := new(bson.Builder).ObjectID("_id", s.newID()).String("ns", strings.Clone(ns)).Doc("min", lo).Doc("max", hi).Value("tag", zone)
	return []write{put(tags, b.Finish())}, nil
}

func overlaps(ns string, lo, hi, d bson.Doc) error {
	return mongoerr.New(mongoerr.RangeOverlapConflict, "Zone range: [%s, %s) of %s is overlapping with existing: [%s, %s) of zone %s", lo, hi, ns, d.Lookup("min"), d.Lookup("max"), text(d, "tag"))
}
