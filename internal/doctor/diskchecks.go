package doctor

import (
	"fmt"
	"math"
	"time"
)

const (
	// observed is for how long a server must have watched its disk until that says anything.
	observed = time.Hour
	// foreseen is how many days are looked ahead: as many as $expiryStats has bars for.
	foreseen = 30
	// soon is how many days before the disk is full it is critical.
	soon = 3
	// littleFree is the share of a disk that should be free, for compactions.
	littleFree = 0.1
)

func findDiskFull(f *facts, found func(Finding)) {
	for _, s := range f.servers {
		if truth(s.status, "mayfly", "disk", "full") {
			found(Finding{Severity: Critical, Where: s.address, Text: "The disk is full: writes are refused (14031), and those that expire or are deleted go on.",
				Do: "Make room on the disk, or a larger one: writes go on by themselves. What deleted documents still take is freed by compact.", Run: []string{"db.runCommand({compact: COLLECTION})"}})
		}
	}
}

// leaving is what expires, as shares of all documents.
type leaving struct {
	// days has what leaves within so many days, of the documents that are there.
	days [foreseen + 1]float64
	// kinds are the documents of rules, by how many days such a document lives.
	kinds []livesFor
}

type livesFor struct{ days, share float64 }

// leaves computes what the rules of all collections remove. documents are all there are.
func (f *facts) leaves(documents float64) (l leaving) {
	for _, r := range f.rules() {
		last, all := 0.0, r.due()
		var perDay [foreseen]float64
		for _, bar := range elements(r.doc, "histogram", "days") {
			from, ok := moment(bar, "from")
			day := int(math.Round(from.Sub(f.now).Hours() / 24))
			if !ok || day < 0 || day >= foreseen {
				continue
			}
			n := number(bar, "documents")
			perDay[day] += n
			all += n
			last = max(last, float64(day+1))
		}
		sum := r.due() / documents
		for day := range l.days {
			l.days[day] += sum
			if day < foreseen {
				sum += perDay[day] / documents
			}
		}
		if number(r.doc, "histogram", "later", "documents") == 0 && last > 0 {
			l.kinds = append(l.kinds, livesFor{last, all / documents})
		}
	}
	return l
}

// expired is which share of what arrives in so many days has left by then.
func (l *leaving) expired(days float64) (sum float64) {
	for _, k := range l.kinds {
		sum += k.share * max(0, days-k.days)
	}
	return min(sum, days)
}

// findDiskFills tells when a disk is full if documents arrive as they did: the store grows by
// what arrives, and by less what expires, which the rules foretell.
func findDiskFills(f *facts, found func(Finding)) {
	for _, s := range f.servers {
		free, total := number(s.status, "mayfly", "disk", "freeBytes"), number(s.status, "mayfly", "disk", "totalBytes")
		if total == 0 || truth(s.status, "mayfly", "disk", "full") {
			continue
		}
		if free < littleFree*total {
			found(Finding{Severity: Warning, Where: s.address, Text: fmt.Sprintf("%.0f%% of the disk is free: %s of %s.", 100*free/total, size(free), size(total)),
				Do: "Compactions need room of their own. Make the disk larger, or have more documents expire sooner."})
		}
		day, arrives, leaves := f.fills(s)
		if day < 0 {
			continue
		}
		severity := Warning
		if day <= soon {
			severity = Critical
		}
		found(Finding{Severity: severity, Where: s.address, Text: fmt.Sprintf("The disk is full on %s if documents arrive and expire as they do: %s a day arrive, %s a day leave, and %s are free.",
			f.now.AddDate(0, 0, day).UTC().Format("2 January 2006"), size(arrives), size(leaves), size(free)),
			Do: "Make the disk larger, add a shard, or have documents expire sooner: a dry run says what would go.", Run: []string{"db.COLLECTION.aggregate([{$expiryStats: {}}])"}})
	}
}

// fills returns in how many days a server's disk is full, -1 if that is not foreseen, and how
// many bytes a day arrive and leave.
func (f *facts) fills(s *server) (day int, arrives, leaves float64) {
	disk := document(s.status, "mayfly", "disk")
	documents, store := number(disk, "documents"), number(disk, "storeBytes")
	if number(disk, "sampledSeconds") < observed.Seconds() || documents == 0 {
		return -1, 0, 0
	}
	const secondsADay = 24 * 3600
	leaves = secondsADay * number(disk, "expiredPerSecond") * store / documents
	arrives = secondsADay*number(disk, "storeBytesPerSecond") + leaves
	l := f.leaves(documents)
	free := number(disk, "freeBytes")
	for d := 1; d <= foreseen; d++ {
		days := float64(d)
		if free-arrives*days+l.days[d]*store+l.expired(days)*arrives <= 0 {
			return d, arrives, leaves
		}
	}
	return -1, arrives, leaves
}

// size is a number of bytes as people say it.
func size(n float64) string {
	for _, u := range []string{"B", "KB", "MB", "GB"} {
		if math.Abs(n) < 999.5 { // else it would be 1e+03
			return fmt.Sprintf("%.3g %s", n, u)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.3g TB", n)
}
