package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

const (
	// certificateSaid is how long before its end a certificate is told, and certificateSoon when
	// that is critical.
	certificateSaid = 30 * 24 * time.Hour
	certificateSoon = 7 * 24 * time.Hour
	// manyConnections is the share of its connections that a server should not have in use.
	manyConnections = 0.8
)

func findInvariantBroken(f *facts, found func(Finding)) {
	for _, s := range f.servers {
		if n := number(s.status, "mayfly", "invariantsBroken"); n > 0 {
			found(Finding{Severity: Critical, Where: s.address, Text: fmt.Sprintf("The server has found %s in itself since it started: its log has them as Invariant broken, with their stacks.", count(n, "bug", "bugs")),
				Do: "Please report it with these lines. Verify the data: of a member that was stopped, or of a backup.", Run: []string{"mayfly verify --dbpath DIR", "mayfly backup verify --from REPOSITORY --restore"}})
		}
	}
}

// findCertificate tells of certificates that end.
func findCertificate(f *facts, found func(Finding)) {
	for _, s := range f.servers {
		for _, c := range elements(s.status, "mayfly", "certificates") {
			ends, ok := moment(c, "ends")
			left := ends.Sub(f.now)
			if !ok || left > certificateSaid {
				continue
			}
			one := Finding{Severity: Warning, Where: s.address, Text: fmt.Sprintf("%s (%s) ends on %s, in %s.", title(text(c, "use")), text(c, "subject"), ends.UTC().Format("2 January 2006"), roughly(left)),
				Do: "Replace the file, and have the server read it: no connection breaks.", Run: []string{"db.adminCommand({rotateCertificates: 1})"}}
			if left <= certificateSoon {
				one.Severity = Critical
			}
			if left <= 0 {
				one.Text = fmt.Sprintf("%s (%s) ended on %s: who checks it is not connected.", title(text(c, "use")), text(c, "subject"), ends.UTC().Format("2 January 2006"))
			}
			found(one)
		}
	}
}

// title begins a sentence.
func title(s string) string {
	if s == "" {
		return "A certificate"
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func findConnections(f *facts, found func(Finding)) {
	for _, s := range f.servers {
		current, available := number(s.status, "connections", "current"), number(s.status, "connections", "available")
		if current > manyConnections*(current+available) {
			found(Finding{Severity: Warning, Where: s.address, Text: fmt.Sprintf("%.0f of %.0f connections are in use: further ones are refused.", current, current+available),
				Do: "See who has them; bound maxPoolSize in drivers, and count how many processes there are. Or raise net.maxIncomingConnections, and the limit on open files with it.", Run: []string{"db.currentOp(true).inprog.map(o => o.client)"}})
		}
	}
}

func findStartupWarning(f *facts, found func(Finding)) {
	for _, s := range f.servers {
		for _, w := range s.warnings {
			if strings.Contains(w, "certificate") {
				continue // told by its check, as it is now
			}
			found(Finding{Severity: Notice, Where: s.address, Text: "The server warned when it started: " + w, Do: "Do as it says, or know that it is meant so."})
		}
	}
}

// findIndexUnused tells of indexes that are kept for nothing. One that enforces something, makes
// documents expire, or may be a shard key's is left out.
func findIndexUnused(f *facts, found func(Finding)) {
	for _, c := range f.collections {
		for _, ix := range c.indexes {
			if ix.ops > 0 || ix.name == "_id_" || f.now.Sub(ix.since) < f.o.UnusedFor || f.serves(c, ix) {
				continue
			}
			db, coll, _ := strings.Cut(c.ns, ".")
			at := fmt.Sprintf("db.getSiblingDB(%s).getCollection(%s)", strconv.Quote(db), strconv.Quote(coll))
			found(Finding{Severity: Notice, Where: c.ns + ": " + ix.name, Text: "No query has used the index for " + roughly(f.now.Sub(ix.since)) + ", on any server: each write pays for it.",
				Do: "Hide it, which can be undone at once, and drop it when nobody misses it.", Run: []string{at + ".hideIndex(" + strconv.Quote(ix.name) + ")", at + ".dropIndex(" + strconv.Quote(ix.name) + ")"}})
		}
	}
}

// serves reports whether an index is there for something else than queries.
func (f *facts) serves(c *collection, ix indexUse) bool {
	if truth(ix.spec, "unique") || ix.spec.Has("expireAfterSeconds") || truth(ix.spec, "clustered") {
		return true
	}
	return f.cluster != nil && f.cluster.spread[c.ns] != nil
}

func findBackupOld(f *facts, found func(Finding)) {
	for _, b := range f.o.Backups {
		if age := f.now.Sub(b.At); age > f.o.BackupAge {
			found(Finding{Severity: Warning, Where: b.Of, Text: fmt.Sprintf("The newest backup is %s old, of %s.", roughly(age), b.At.UTC().Format("2 January 2006 15:04")),
				Do: "Take one, and see why those before were not taken: mayfly backup --follow takes one each --every.", Run: []string{"mayfly backup --uri URI --to REPOSITORY"}})
		}
	}
	if f.o.BackupAge > 0 && len(f.o.Backups) == 0 {
		found(Finding{Severity: Warning, Where: "backups", Text: "The repository has no backup.", Do: "Take one.", Run: []string{"mayfly backup --uri URI --to REPOSITORY"}})
	}
}

// refusedCodes are the errors of who may not ask.
var refusedCodes = []mongoerr.Code{mongoerr.Unauthorized, mongoerr.AuthenticationFailed}

// rolesFor are the roles of those who may ask some questions, by what these ask.
func rolesFor(questions []string) (roles []string) {
	for _, q := range questions {
		role := "clusterMonitor"
		switch {
		case strings.HasPrefix(q, collectionsOf):
			role = "readAnyDatabase"
		case strings.HasSuffix(q, isSpread):
			role = "clusterManager"
		}
		if !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
	}
	slices.Sort(roles)
	return roles
}

// findNotExamined tells what could not be asked, a line for each server and error.
func findNotExamined(f *facts, found func(Finding)) {
	f.findElsewhere(found)
	type key struct{ where, err string }
	what := map[key][]string{}
	var order []key
	refused := map[key]bool{}
	for _, u := range f.unseen {
		k := key{u.where, said(u.err)}
		if code, ok := codeOf(u.err); ok && slices.Contains(refusedCodes, code) {
			k.err = "the user may not ask (13)"
			refused[k] = true
		}
		if what[k] == nil {
			order = append(order, k)
		}
		what[k] = append(what[k], u.what)
	}
	for _, k := range order {
		one := Finding{Severity: Notice, Where: k.where, Text: fmt.Sprintf("Not looked at: %s: %s.", list(what[k]), strings.TrimSuffix(k.err, ".")), Do: "What was not looked at may be wrong, too. Ask again when the server answers."}
		if refused[k] {
			roles := rolesFor(what[k])
			one.Do, one.Run = "Give the user what it lacks of roles: "+strings.Join(roles, ", ")+".", []string{`db.getSiblingDB("admin").grantRolesToUser(USER, ["` + strings.Join(roles, `", "`) + `"])`}
		}
		found(one)
	}
}

// findElsewhere tells of servers to which there is no way.
func (f *facts) findElsewhere(found func(Finding)) {
	var addresses []string
	for _, s := range f.servers {
		if s.elsewhere() {
			addresses = append(addresses, s.address)
		}
	}
	if len(addresses) == 0 {
		return
	}
	one := Finding{Severity: Notice, Where: list(addresses), Text: "Not asked from here: what is said of these servers is what others know of them.",
		Do: "mayfly doctor asks each one for its disk, its clock, its certificates and the use of its indexes.", Run: []string{"mayfly doctor --uri URI"}}
	if slices.ContainsFunc(f.sets, (*set).primaryElsewhere) {
		one.Text += " The rules of expiry are the primary's: they were not looked at."
	}
	found(one)
}
