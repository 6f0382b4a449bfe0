package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

func findBalancerOff(f *facts, found func(Finding)) {
	if f.cluster == nil || text(f.cluster.balancer, "mode") != "off" {
		return
	}
	one := Finding{Severity: Notice, Where: "balancer", Text: "The balancer is off: nothing moves to where there is room.", Do: "Start it when what it was stopped for (a backup, an upgrade) is over.", Run: []string{"sh.startBalancer()"}}
	if f.uneven() {
		one.Severity, one.Text = Warning, "The balancer is off, and collections are spread unevenly."
	}
	found(one)
}

// uneven reports whether a collection should move.
func (f *facts) uneven() bool {
	for _, st := range f.cluster.spread {
		if st != nil && !truth(st, "balancerCompliant") {
			return true
		}
	}
	return false
}

// findSpread tells of collections that lie unevenly, and are not on their way.
func findSpread(f *facts, found func(Finding)) {
	if f.cluster == nil {
		return
	}
	for _, ns := range sorted(f.cluster.spread) {
		st := f.cluster.spread[ns]
		if st == nil || truth(st, "balancerCompliant") {
			continue
		}
		details := strings.TrimSuffix(text(st, "details", "message"), ".")
		one := Finding{Severity: Notice, Where: ns, Text: fmt.Sprintf("The collection is spread unevenly (%s): %s.", text(st, "firstComplianceViolation"), details),
			Do: "The balancer moves it, if it can: look again later.", Run: []string{"sh.balancerCollectionStatus(" + strconv.Quote(ns) + ")"}}
		if held := text(st, "details", "held"); held != "" {
			one.Severity = Warning
			one.Text += " It stays so: " + strings.TrimSuffix(held, ".") + "."
			one.Do = "Remove what keeps the balancer from it."
			if strings.Contains(held, "noBalance") {
				one.Run = append(one.Run, "sh.enableBalancing("+strconv.Quote(ns)+")")
			}
		} else if left := number(st, "details", "progress", "secondsLeft"); left > 0 {
			one.Text += " At this pace it takes " + roughly(time.Duration(left)*time.Second) + " more."
		}
		found(one)
	}
}

// findZoneWithoutShard tells of ranges that no shard may have.
func findZoneWithoutShard(f *facts, found func(Finding)) {
	if f.cluster == nil {
		return
	}
	zones := map[string][]string{} // namespaces of zones
	for _, d := range f.cluster.tags {
		zone, ns := text(d, "tag"), text(d, "ns")
		if !slices.Contains(zones[zone], ns) {
			zones[zone] = append(zones[zone], ns)
		}
	}
	for _, zone := range sorted(zones) {
		has := slices.ContainsFunc(f.cluster.shards, func(s bson.Doc) bool { return slices.Contains(texts(s, "tags"), zone) && !truth(s, "draining") })
		if has {
			continue
		}
		found(Finding{Severity: Warning, Where: "zone " + zone, Text: fmt.Sprintf("Ranges of %s are in the zone, and no shard that stays is: they lie anywhere.", list(zones[zone])),
			Do: "Put a shard into the zone, or take the ranges out of it.", Run: []string{"sh.addShardToZone(SHARD, " + strconv.Quote(zone) + ")"}})
	}
}

// findDraining tells of shards that leave the cluster, and do not come to an end by themselves.
func findDraining(f *facts, found func(Finding)) {
	if f.cluster == nil {
		return
	}
	for _, id := range sorted(f.cluster.drains) {
		st := f.cluster.drains[id]
		remove := "db.adminCommand({removeShard: " + strconv.Quote(id) + "})"
		if text(st, "state") == "drainingComplete" {
			found(Finding{Severity: Notice, Where: id, Text: "The shard is drained, and still in the cluster.", Do: "Take it out.", Run: []string{remove}})
			continue
		}
		one := Finding{Severity: Notice, Where: id, Text: fmt.Sprintf("The shard leaves the cluster: %s left.", count(number(st, "remaining", "chunks"), "chunk is", "chunks are")), Do: "The balancer moves them: look again later.", Run: []string{remove}}
		var keeps, run []string
		for _, db := range texts(st, "dbsToMove") {
			run = append(run, "db.adminCommand({movePrimary: "+strconv.Quote(db)+", to: SHARD})")
		}
		for _, ns := range texts(st, "collectionsToMove") {
			run = append(run, "sh.moveCollection("+strconv.Quote(ns)+", SHARD)")
		}
		if len(run) > 0 {
			keeps = append(keeps, fmt.Sprintf("%d databases or collections move by hand only", len(run)))
		}
		if text(f.cluster.balancer, "mode") == "off" {
			keeps = append(keeps, "the balancer is off")
			run = append(run, "sh.startBalancer()")
		}
		if n := number(st, "remaining", "jumboChunks"); n > 0 {
			keeps = append(keeps, count(n, "chunk is", "chunks are")+" too large to move")
			run = append(run, "sh.moveRange(NAMESPACE, SHARD, MIN, MAX)")
		}
		if len(keeps) > 0 {
			one.Severity = Warning
			one.Text += " It does not end: " + strings.Join(keeps, "; ") + "."
			one.Do, one.Run = "Do what is left by hand.", run
		}
		found(one)
	}
}
