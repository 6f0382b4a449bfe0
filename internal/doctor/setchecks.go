package doctor

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
)

const (
	// lagSaid is how far a secondary may be behind its primary, and lagCritical when it is of
	// little use as one.
	lagSaid     = 10 * time.Second
	lagCritical = 10 * time.Minute
	// skewSaid is by how much two clocks may differ.
	skewSaid = time.Second
	// windowSaid is how much history the log should have.
	windowSaid = 24 * time.Hour
)

// findUnreachable tells of servers that are there, as others say, and that cannot be asked.
func findUnreachable(f *facts, found func(Finding)) {
	for _, s := range f.servers {
		if s.err == nil || s.elsewhere() || f.isDown(s) {
			continue
		}
		one := Finding{Severity: Warning, Where: s.address, Text: "It cannot be asked from here: " + strings.TrimSuffix(said(s.err), ".") + ".",
			Do: "Drivers use the same address: run this where clients are, and see that the address (--advertise, or the host in rs.conf()) and the encryption are right there."}
		if s.refuses() {
			one.Text = "It is up, and does not let the user in: " + strings.TrimSuffix(said(s.err), ".") + ". Nothing is known of it."
			one.Do = "Users of a cluster are not those of its shards: make the same user there, with the same password, on each shard once, connected to its primary."
			one.Run = []string{`db.getSiblingDB("admin").createUser({user: USER, pwd: passwordPrompt(), roles: ["clusterMonitor", "readAnyDatabase"]})`}
		}
		found(one)
	}
}

// refuses reports whether the server has answered that it does not let the user in.
func (s *server) refuses() bool {
	code, answered := codeOf(s.err)
	return answered && slices.Contains(refusedCodes, code)
}

// elsewhere reports whether there is no way to the server, which says nothing of it.
func (s *server) elsewhere() bool { return errors.Is(s.err, ErrElsewhere) }

// silent reports whether no member of the set answers, not even that it lets nobody in.
func (s *set) silent() bool {
	return s.door() == nil && !slices.ContainsFunc(s.members, func(m *server) bool { return m.refuses() || m.elsewhere() })
}

// primaryElsewhere reports whether a member to which there is no way is the primary, as others say.
func (s *set) primaryElsewhere() bool {
	return slices.ContainsFunc(elements(s.status, "members"), func(d bson.Doc) bool {
		m := s.member(text(d, "name"))
		return text(d, "stateStr") == "PRIMARY" && m != nil && m.elsewhere()
	})
}

// isDown reports whether the other members of its set miss a server, too.
func (f *facts) isDown(s *server) bool {
	for _, set := range f.sets {
		for _, m := range elements(set.status, "members") {
			if text(m, "name") == s.address {
				return number(m, "health") == 0
			}
		}
		if set.name == s.set && set.status == nil {
			return set.silent()
		}
	}
	return false
}

func findNoPrimary(f *facts, found func(Finding)) {
	for _, s := range f.sets {
		if s.primary() != nil || s.door() == nil || s.primaryElsewhere() {
			continue
		}
		up, voters := s.voters()
		one := Finding{Severity: Critical, Where: s.name, Text: "The set has no primary: nothing can be written, and nothing expires."}
		switch need := voters/2 + 1; {
		case voters > 0 && up < need:
			one.Do = fmt.Sprintf("%d of %d voting members answer, and %d are needed. Start those that are down; if their disks are lost, start them with empty directories at the same hosts, once there is a majority.", up, voters, need)
		default:
			one.Do = "A majority of the members answers: they should elect one within seconds. If they do not, their logs say why (replication: …): look at their disks and at the network between them."
		}
		found(one)
	}
}

// voters counts the voting members, and those of them that answer the others.
func (s *set) voters() (up, all int) {
	votes := map[string]bool{}
	for _, m := range elements(s.config, "members") {
		if at(m, "votes").IsMissing() || truth(m, "votes") {
			votes[text(m, "host")] = true
		}
	}
	for _, m := range elements(s.status, "members") {
		if votes[text(m, "name")] && number(m, "health") > 0 {
			up++
		}
	}
	return up, len(votes)
}

func findMemberDown(f *facts, found func(Finding)) {
	for _, s := range f.sets {
		for _, m := range elements(s.status, "members") {
			if number(m, "health") > 0 {
				continue
			}
			since := text(m, "lastHeartbeatMessage")
			if since == "" {
				since = "it does not answer"
			}
			found(Finding{Severity: Critical, Where: s.name + ": " + text(m, "name"), Text: "The member is down: " + since + ".",
				Do: "Start it on its directory: it catches up by itself. If its disk is lost, start it with an empty directory at the same host, without --initiate. If it will not come back, take it out of the set.", Run: []string{"rs.remove(" + strconv.Quote(text(m, "name")) + ")"}})
		}
		if s.status == nil && s.silent() {
			found(Finding{Severity: Critical, Where: s.name, Text: "No member of the set answers.", Do: "Start its members on their directories."})
		}
	}
}

func findOneFailure(f *facts, found func(Finding)) {
	for _, s := range f.sets {
		up, all := s.voters()
		need := all/2 + 1
		if all == 0 || up < need || up > need {
			continue
		}
		one := Finding{Severity: Warning, Where: s.name, Text: fmt.Sprintf("One more failure stops the set: %d of its %d voting members are up, and %d are needed.", up, all, need),
			Do: "Bring back the members that are down."}
		switch all {
		case 1:
			one.Severity, one.Text = Notice, "The set has one voting member: if that fails, nothing is served, and if its disk is lost, so are the data."
			one.Do, one.Run = "Add two members on other machines.", []string{`rs.add("HOST:PORT")`}
		case 2:
			one.Do, one.Run = "Two voting members are no safer than one: add a third.", []string{`rs.add("HOST:PORT")`}
		}
		found(one)
	}
}

func findReplicationLag(f *facts, found func(Finding)) {
	for _, s := range f.sets {
		var newest time.Time
		for _, m := range elements(s.status, "members") {
			if t, ok := moment(m, "optimeDate"); ok && t.After(newest) {
				newest = t
			}
		}
		delay := map[string]time.Duration{}
		for _, m := range elements(s.config, "members") {
			delay[text(m, "host")] = time.Duration(number(m, "secondaryDelaySecs")) * time.Second
		}
		for _, m := range elements(s.status, "members") {
			t, ok := moment(m, "optimeDate")
			lag := newest.Sub(t) - delay[text(m, "name")]
			if !ok || number(m, "health") == 0 || number(m, "state") != 2 || lag < lagSaid {
				continue
			}
			severity := Warning
			if lag >= lagCritical {
				severity = Critical
			}
			found(Finding{Severity: severity, Where: s.name + ": " + text(m, "name"), Text: "The secondary is " + roughly(lag) + " behind the primary.",
				Do: "Reads there are that old, and it is that far from being able to take over. Look at the load of its disk and its processors: a secondary needs the same machine as the primary.", Run: []string{"rs.printSecondaryReplicationInfo()"}})
		}
	}
}

// findMemberNotReady tells of members that are up and serve nothing.
func findMemberNotReady(f *facts, found func(Finding)) {
	for _, s := range f.sets {
		for _, m := range elements(s.status, "members") {
			state := text(m, "stateStr")
			if number(m, "health") == 0 || state == "PRIMARY" || state == "SECONDARY" || state == "" {
				continue
			}
			one := Finding{Severity: Warning, Where: s.name + ": " + text(m, "name"), Text: "The member is in state " + state + ", and serves no reads.",
				Do: "If it receives data, it ends by itself: initialSyncStatus of its rs.status() says when. Else its log says what it waits for.", Run: []string{"rs.status().initialSyncStatus"}}
			if state == "REMOVED" {
				one.Do, one.Run = "It was taken out of the set: stop it, or add it again.", []string{"rs.add(" + strconv.Quote(text(m, "name")) + ")"}
			}
			found(one)
		}
	}
}

func findLogWindow(f *facts, found func(Finding)) {
	for _, s := range f.servers {
		if at(s.status, "oplogTruncation", "historySecs").IsMissing() {
			continue
		}
		history := time.Duration(number(s.status, "oplogTruncation", "historySecs")) * time.Second
		wanted := time.Duration(number(s.status, "oplogTruncation", "oplogMinRetentionHours") * float64(time.Hour))
		if !truth(s.status, "oplogTruncation", "shorterThanRetention") && history >= min(windowSaid, max(wanted, 0)) {
			continue
		}
		found(Finding{Severity: Warning, Where: s.address, Text: "The log of the set reaches back " + roughly(history) + " only.",
			Do:  "A member that is down for longer receives all data again, change streams that rest for longer cannot go on, and backups that follow have gaps. Make the log larger, if the disk has room.",
			Run: []string{"db.adminCommand({replSetResizeOplog: 1, size: MEGABYTES})"}})
	}
}

func findStreamsLost(f *facts, found func(Finding)) {
	for _, s := range f.servers {
		if n := number(s.status, "metrics", "changeStreams", "lost"); n > 0 {
			found(Finding{Severity: Notice, Where: s.address, Text: fmt.Sprintf("Since the server started, %s could not go on: the log no longer had their place.", count(n, "change stream", "change streams")),
				Do: "Who reads them has missed events, and must read its collections anew. Make the log larger, or have the readers read faster.", Run: []string{"db.serverStatus().metrics.changeStreams", "db.adminCommand({replSetResizeOplog: 1, size: MEGABYTES})"}})
		}
	}
}

// findClockSkew compares the clocks of servers with each other. Expiry goes by the primary's.
func findClockSkew(f *facts, found func(Finding)) {
	var least, most *server
	for _, s := range f.servers {
		if s.err != nil || at(s.hello, "localTime").IsMissing() {
			continue
		}
		if least == nil || s.ahead < least.ahead {
			least = s
		}
		if most == nil || s.ahead > most.ahead {
			most = s
		}
	}
	if least == nil || most.ahead-least.ahead <= skewSaid+most.within+least.within {
		return
	}
	found(Finding{Severity: Warning, Where: most.address, Text: fmt.Sprintf("Its clock is %s ahead of that of %s.", roughly(most.ahead-least.ahead), least.address),
		Do: "Documents expire by the primary's clock, so that much earlier or later when another member takes over. Set the clocks by NTP (chronyd, systemd-timesyncd) on both machines.", Run: []string{"timedatectl"}})
}

// findVersions tells of servers of different versions, and of a feature version behind.
func findVersions(f *facts, found func(Finding)) {
	version := map[string][]string{}
	for _, s := range f.servers {
		if v := text(s.status, "mayfly", "version"); v != "" {
			version[v] = append(version[v], s.address)
		}
	}
	if all := sorted(version); len(all) > 1 {
		newest := all[len(all)-1]
		for _, v := range all[:len(all)-1] {
			found(Finding{Severity: Notice, Where: list(version[v]), Text: fmt.Sprintf("The version is %s, that of others %s.", v, newest),
				Do: "End the upgrade: the secondaries of a set, then its primary; of a cluster the config servers, the shards, the routers."})
		}
	}
	for _, s := range f.sets {
		d := s.door()
		if d == nil || at(d.status, "featureCompatibilityVersion", "major").IsMissing() {
			continue
		}
		if v := number(d.status, "featureCompatibilityVersion", "major"); v < newestFeatures {
			found(Finding{Severity: Notice, Where: s.name, Text: fmt.Sprintf("The feature compatibility version is %d.0, and could be %d.0.", int(v), newestFeatures),
				Do: "Raise it when no older binary will be started again.", Run: []string{fmt.Sprintf(`db.adminCommand({setFeatureCompatibilityVersion: "%d.0", confirm: true})`, newestFeatures)}})
		}
	}
}

// newestFeatures is MongoDB's version of which the server is.
const newestFeatures = 8

// roughly is a duration as people say it.
func roughly(d time.Duration) string {
	d = d.Abs()
	switch {
	case d < 2*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < 2*time.Minute:
		return count(math.Round(d.Seconds()), "second", "seconds")
	case d < 2*time.Hour:
		return count(math.Round(d.Minutes()), "minute", "minutes")
	case d < 48*time.Hour:
		return count(math.Round(d.Hours()), "hour", "hours")
	}
	return count(math.Round(d.Hours()/24), "day", "days")
}

// count is a number of things.
func count(n float64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(int64(n), 10) + " " + many
}

// list is some names, the first few of them.
func list(names []string) string {
	const shown = 5
	out := ""
	for i, n := range names {
		switch {
		case i == shown:
			return out + fmt.Sprintf(" and %d more", len(names)-shown)
		case i > 0:
			out += ", "
		}
		out += n
	}
	return out
}
