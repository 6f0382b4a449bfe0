package book

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// elsewhere are the pages whose commands another test runs: all of them, or those for a shell.
var elsewhere = map[string]struct {
	where string // a file that reads the page
	shell bool   // those for a shell only
}{
	"backup.md":     {"../backup/operate_test.go", true},
	"encryption.md": {"../backup/encryption_test.go", false},
	"moving-in.md":  {"../moving/moving_test.go", false},
}

// notHere are commands that this test does not run, by how they begin, and why.
var notHere = []struct{ begins, why string }{
	{"gpg ", "packaging/test"},
	{"sha256sum ", "packaging/test"},
	{"dpkg ", "e2e/debian/package installs the package"},
	{"systemctl ", "needs systemd; e2e/debian/package starts what the unit starts"},
	{"podman ", "needs an engine; TestImage of packaging runs what is in the image"},
	{"docker ", "needs an engine; TestImage of packaging runs what is in the image"},
	{"helm ", "needs Kubernetes; TestKubernetes of packaging runs what the chart renders"},
	{"kubectl ", "needs Kubernetes; TestKubernetes of packaging runs what the chart renders"},
	{"make bench ", "a benchmark"},
	{"go get ", "needs a published module; embed/embed_test.go uses it"},
	{"MONGOMS_SYSTEM_BINARY=", "e2e/node/memoryserver.test.js"},
	{"ln -s ", "e2e/node/memoryserver.test.js"},
	{"MAYFLY_BIN=$PWD/bin/mayfly go test ./e2e/upgrade ", "writes a fixture for a release"},
	{"open ", "a browser; e2e/node/console.test.js opens one"},
	{"mongosh", "the shell in which the next commands run"},
}

// forms are commands with places to fill in: what the test fills in.
var forms = strings.NewReplacer(
	"passwordPrompt()", `"secret"`, `db.createUser({ user: "shop"`, `db.getSiblingDB("admin").auth("root", "secret"); db.createUser({ user: "shop"`,
	`db.runCommand({collMod: "tokens"`, `db.tokens.createIndex({at: 1}, {expireAfterSeconds: 60}); db.runCommand({collMod: "tokens"`,
	"mayfly run '", "mayfly run --uri mongodb://localhost/ '",
	"{timeseries: {…}, ", `{timeseries: {timeField: "t"}, `,
	"<_id>", `{id: UUID("00000000-0000-4000-8000-000000000000"), uid: BinData(0, "")}`, "<txnNum>", "NumberLong(1)",
	" --port 27017", "", "mayfly serve … ", "mayfly serve ", " …", "",
	" --dbpath DIR", " --dbpath /var/lib/mayfly", " --into NEWDIR", " --into /var/lib/repaired",
	"s3://attic/mayfly,file:///mnt/attic", "file:///mnt/attic", "s3://attic/mayfly/eu", "file:///mnt/attic/eu",
)

// before is what a section has before its commands run; the page says so in words.
var before = map[string]func(*stage){
	"expiry.md#Before you make a rule: what would go?": evaluated(`db.log.insertOne({at: new Date(0)}); db.log.createIndex({at: 1}, {expireAfterSeconds: 86400})`),
	"expiry.md#A schema that enforces expiry":          evaluated(`db.log.drop()`),
	"archive.md#Read it":                               evaluated(`db.log.insertOne({user: "ann", at: new Date()})`),
	"cluster.md#Spread a collection":                   evaluated(`sh.enableSharding("app")`),
	"cluster.md#Another shard key":                     evaluated(`db.getSiblingDB("app").events.createIndex({deviceId: "hashed"})`),
	"files.md#Files of documents":                      evaluated(`db.getSiblingDB("shop").carts.insertMany([{_id: 1, user: "ann", at: new Date()}, {_id: 2}])`),
	"damage.md#mayfly verify": func(s *stage) {
		s.serve("mayfly serve --dbpath /var/lib/mayfly")
		s.stop(s.servers[s.port("27017")])
	},
}

func evaluated(text string) func(*stage) {
	return func(s *stage) {
		s.ensureServer()
		s.evaluate(text, "")
	}
}

// refused are commands that are refused, as there is nothing to be done by them here, or not yet.
var refused = []struct{ begins, by string }{
	{"db.adminCommand({ transitionToDedicatedConfigServer:", "it would remove the last shard"},
	{"sh.abortReshardCollection(", "Could not find in-progress resharding operation"},
	{"db.adminCommand({ commitShardRemoval:", "isn't completely drained"},
	{"db.adminCommand({decidePreparedTransaction:", "no such command"},         // a router has none; only shards do
	{`db.getSiblingDB("app").runCommand({collMod: "log"`, "ns does not exist"}, // mayfly doctor prints it
}

// ownServers are sections that begin anew, with other servers.
var ownServers = []string{"cluster.md#The smallest cluster", "security.md#Users with certificates"}

// TestBook runs the commands of the book in their order, page by page, as processes of this machine:
// with its directories and ports in place of those that the book names. A command that neither runs
// here, nor elsewhere, nor is known not to run, fails.
func TestBook(t *testing.T) {
	pages, err := filepath.Glob("../../docs/operate/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	shell := newShell(t)
	for _, path := range pages {
		page := filepath.Base(path)
		commands := commandsOf(t, page)
		other := elsewhere[page]
		if other.where != "" {
			if b, err := os.ReadFile(other.where); err != nil || !strings.Contains(string(b), page) {
				t.Errorf("%s does not read %s: %v", other.where, page, err)
			}
		}
		t.Run(page, func(t *testing.T) {
			stages := map[string]*stage{}
			for _, c := range commands {
				if why := notRun(c); why != "" || other.where != "" && (!other.shell || !c.mongosh) {
					continue
				}
				place := page + "#" + c.section
				name := page
				if slices.Contains(ownServers, place) {
					name = place
				}
				s := stages[name]
				if s == nil {
					s = newStage(t, shell)
					stages[name] = s
				}
				if s.section != c.section {
					s.section = c.section
					if prepare := before[place]; prepare != nil {
						prepare(s)
					}
				}
				ran++
				s.run(c)
			}
		})
	}
	if ran < 90 {
		t.Errorf("the book has only %d commands", ran)
	}
}

// notRun says why a command is not run here, "" if it is.
func notRun(c command) string {
	for _, n := range notHere {
		if !c.mongosh && strings.HasPrefix(c.text, n.begins) {
			return n.why
		}
	}
	return ""
}

// run runs a command.
func (s *stage) run(c command) {
	text := forms.Replace(c.text)
	switch {
	case c.mongosh:
		s.ensureServer()
		for _, r := range refused {
			if strings.HasPrefix(c.text, r.begins) {
				c.fails = r.by
			}
		}
		s.evaluate(text, c.fails)
	case strings.HasPrefix(text, "mayfly serve ") || strings.HasPrefix(text, "mayfly router "):
		s.serve(text)
	default:
		s.exec(text)
	}
}
