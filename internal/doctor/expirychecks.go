package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

const (
	// behindSaid is for how long a due document may wait until a rule is behind; under a budget,
	// or outside of a window of hours, it is a day.
	behindSaid     = 5 * time.Minute
	behindByChoice = 24 * time.Hour
)

// rule is what $expiryStats says of one.
type rule struct {
	ns, name string
	doc      bson.Doc
}

// rules are those of all collections.
func (f *facts) rules() (all []rule) {
	for _, c := range f.collections {
		for _, d := range c.rules {
			all = append(all, rule{c.ns, text(d, "rule"), d})
		}
	}
	return all
}

func (r rule) where() string { return r.ns + ": " + r.name }

func (r rule) due() float64 { return number(r.doc, "dueNow", "documents") }

// lag is how long the oldest due document has waited.
func (r rule) lag() time.Duration {
	return time.Duration(number(r.doc, "lagSeconds")) * time.Second
}

// change is a command that changes the rule.
func (r rule) change(settings string) string {
	db, coll, _ := strings.Cut(r.ns, ".")
	index := fmt.Sprintf("index: {name: %s, %s}", strconv.Quote(r.name), settings)
	if r.name == "" || r.name == "expireAfterSeconds" {
		index = settings
	}
	return fmt.Sprintf("db.getSiblingDB(%s).runCommand({collMod: %s, %s})", strconv.Quote(db), strconv.Quote(coll), index)
}

// remedy is what a reason means, by how $expiryStats begins it.
type remedy struct {
	reason   string
	severity Severity
	// patient says that it is told only when documents have waited for behindByChoice.
	patient bool
	do      string
	run     func(r rule) string // nil for no command
}

func settings(text string) func(rule) string {
	return func(r rule) string { return r.change("storageEngine: {mayfly: {expiry: {" + text + "}}}") }
}

func always(command string) func(rule) string { return func(rule) string { return command } }

// remedies are the reasons for which a rule removes nothing (package expire, report.go).
var remedies = []remedy{
	{"paused", Warning, false, "Somebody has paused it. Let it go on, after a dry run if it was long ago.", settings("paused: false")},
	{"no document has a Date in", Warning, false, "The field has to be a Date (or an array with one), and not a string or a number. Change the documents, or make the index on the field that has the Date; a validator keeps it so.", nil},
	{"no document has a time to live", Warning, false, "Give documents a ttl, or the rule a default.", func(r rule) string { return r.change("expireAfterSeconds: SECONDS") }},
	{"an index of type", Warning, false, "Only a plain index expires documents. Make one on the Date, and drop this one.", nil},
	{"ttlMonitorEnabled is false", Critical, false, "Nothing at all expires on this server. Turn the monitor on.", always("db.adminCommand({setParameter: 1, ttlMonitorEnabled: true})")},
	{"the TTL monitor has not started", Critical, false, "Nothing at all expires on this server. Start it as the member that it was, with --replSet.", nil},
	{"writes are locked", Critical, false, "Nothing is written and nothing expires until the lock is gone.", always("db.fsyncUnlock()")},
	{"user writes are blocked", Critical, false, "Clients cannot write, and nothing expires there, until the block ends.", always("db.adminCommand({setUserWriteBlockMode: 1, global: false})")},
	{"this member takes no writes", Critical, false, "Only a primary removes documents: see that the set has one.", always("rs.status()")},
	{"the config servers have not said", Warning, false, "The shard cannot ask the config servers for its share of the budget: see that they have a primary, and that the shard reaches them.", always("sh.status()")},
	{"the clock has jumped", Warning, false, "Documents expire by elapsed time until the clock has been steady for ten minutes. Set it by NTP.", always("timedatectl")},
	{"outside of its window", Warning, true, "The window of hours is too short for what comes due. Make it longer.", settings(`window: {from: "HH:MM", to: "HH:MM", timeZone: "ZONE"}`)},
	{"its budget is used up", Warning, true, "The budget is smaller than what comes due. Make it larger.", settings("budget: {documentsPerSecond: NUMBER}")},
	{"its archive cannot be written", Critical, false, "What is due stays until its archive can be written: see that the store is reached, has room, and takes the server's credentials. The disk fills up meanwhile. To let documents go without an archive, take the setting away.", settings("archive: null")},
	{"the index is being built", Notice, true, "It begins when the index is ready.", always("db.currentOp({desc: /IndexBuild/})")},
}

// reasons are why a rule removes nothing, without the shards that say so.
func (r rule) reasons() []string { return texts(r.doc, "skipped") }

// remedyFor returns what is known of a reason. Of a cluster it has the shard before it or behind
// it.
func remedyFor(reason string) remedy {
	for _, m := range remedies {
		if strings.Contains(reason, m.reason) {
			return m
		}
	}
	return remedy{severity: Warning, do: "See the page about expiry."}
}

func findRuleRemovesNothing(f *facts, found func(Finding)) {
	for _, r := range f.rules() {
		for _, reason := range r.reasons() {
			m := remedyFor(reason)
			if m.patient && r.lag() < behindByChoice {
				continue
			}
			one := Finding{Severity: m.severity, Where: r.where(), Text: "The rule removes nothing: " + reason + ".", Do: m.do}
			if r.due() > 0 {
				one.Text = fmt.Sprintf("The rule removes nothing: %s. %s due, the oldest for %s.", reason, countDocuments(r.due(), "is", "are"), roughly(r.lag()))
			}
			if m.run != nil {
				one.Run = []string{m.run(r)}
			}
			found(one)
		}
	}
}

func countDocuments(n float64, is, are string) string {
	if n == 1 {
		return "1 document " + is
	}
	return strconv.FormatInt(int64(n), 10) + " documents " + are
}

// findRuleBehind tells of rules that remove documents, and too slowly.
func findRuleBehind(f *facts, found func(Finding)) {
	for _, r := range f.rules() {
		if r.due() == 0 || r.lag() < behindSaid || len(r.reasons()) > 0 {
			continue
		}
		rate := number(r.doc, "removedPerSecond")
		one := Finding{Severity: Warning, Where: r.where(), Text: fmt.Sprintf("The rule is behind: %s due, the oldest for %s, and it removes %.0f a second.", countDocuments(r.due(), "is", "are"), roughly(r.lag()), rate),
			Do: "It gives way to clients, and to limits for all rules. See whether ttlMonitorDocumentsPerSecond or ttlMonitorBytesPerSecond is set, whether writes wait for the disk, and whether its collection gets windows (relayout), which go at once."}
		if rate > 0 {
			one.Text += " What is due now is gone in " + roughly(time.Duration(r.due()/rate*float64(time.Second))) + "."
		}
		db, coll, _ := strings.Cut(r.ns, ".")
		one.Run = []string{"db.adminCommand({getParameter: 1, ttlMonitorDocumentsPerSecond: 1, ttlMonitorBytesPerSecond: 1, ttlMonitorConcurrentCollections: 1})",
			fmt.Sprintf("db.getSiblingDB(%s).getCollection(%s).aggregate([{$expiryStats: {}}])", strconv.Quote(db), strconv.Quote(coll))}
		found(one)
	}
}

// findDocumentsWithoutDate tells of documents that never expire under a rule that removes others.
func findDocumentsWithoutDate(f *facts, found func(Finding)) {
	for _, r := range f.rules() {
		note := text(r.doc, "note")
		if note == "" || strings.Contains(strings.Join(r.reasons(), "\n"), "no document has a Date in") {
			continue
		}
		found(Finding{Severity: Notice, Where: r.where(), Text: note,
			Do: "Documents without a Date in the field stay for ever. If they should not, give them one; a validator with required and bsonType: \"date\" refuses further ones."})
	}
}
