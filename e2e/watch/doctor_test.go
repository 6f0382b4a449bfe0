package watch

import (
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// patience is how long servers may take for what they do by themselves.
const patience = 30 * time.Second

// finding is one of the report of mayfly doctor --json.
type finding struct {
	Check, Severity, Where, Text, Do string
	Run                              []string
}

// doctor runs mayfly doctor, and checks its exit code by what it finds.
func doctor(t *testing.T, args ...string) []finding {
	t.Helper()
	code, out := testkit.Exec(t, nil, append([]string{"doctor", "--json"}, args...)...)
	var r struct{ Findings []finding }
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("mayfly doctor %v ended with %d: %v\n%s", args, code, err, out)
	}
	if want := min(len(r.Findings), 1); code != want {
		t.Errorf("the exit code is %d with %d findings", code, len(r.Findings))
	}
	return slices.DeleteFunc(r.Findings, func(f finding) bool { return slices.Contains(ofMachine, f.Check) })
}

// ofMachine are the checks about the machine on which the tests run, and how.
var ofMachine = []string{"disk-fills", "startup-warning"}

// has wants a finding of a check whose place and text have some words.
func has(t *testing.T, all []finding, check string, words ...string) (found finding) {
	t.Helper()
	for _, f := range all {
		if f.Check == check && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(f.Where+" "+f.Text, w) }) {
			return f
		}
	}
	t.Errorf("no finding of %s with %q in %+v", check, words, all)
	return found
}

// without is what is found but for some checks.
func without(all []finding, checks ...string) []finding {
	return slices.DeleteFunc(slices.Clone(all), func(f finding) bool { return slices.Contains(checks, f.Check) })
}

func run(t *testing.T, db *mongo.Database, command bson.D) {
	t.Helper()
	if err := db.RunCommand(t.Context(), command).Err(); err != nil {
		t.Fatalf("%v: %v", command, err)
	}
}

func rootOptions(s *testkit.Server, conf *tls.Config) *options.ClientOptions {
	return options.Client().ApplyURI(fmt.Sprintf("mongodb://root:pw@localhost:%d/?directConnection=true", s.Port)).SetTLSConfig(conf)
}

// until repeats f until it reports success.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !f(); {
		if time.Now().After(end) {
			t.Fatalf("waited too long for %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A healthy server has no findings; then each is provoked, and what the finding says to do undoes
// it. The server has TLS, and users.
func TestDoctorOfServer(t *testing.T) {
	a := testkit.NewAuthority(t, "Root")
	long, soon := time.Now().AddDate(2, 0, 0), time.Now().Add(5*24*time.Hour)
	name := pkix.Name{CommonName: "db", Organization: []string{"Example"}}
	client := a.Sign("client.pem", pkix.Name{CommonName: "ann", Organization: []string{"People"}}, long)
	cert := a.Sign("server.pem", name, long)
	s := testkit.StartTLS(t, a.Trusting(client), "", "--auth", "--setParameter", "ttlMonitorSleepSecs=1", "--tlsMode", "requireTLS", "--tlsCAFile", a.CAFile, "--tlsCertificateKeyFile", cert.File)
	admin := s.Client().Database("admin")
	run(t, admin, bson.D{{Key: "createUser", Value: "root"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{"root"}}})
	host := fmt.Sprintf("localhost:%d", s.Port)
	at := func(user string) string {
		return fmt.Sprintf("mongodb://%s:pw@%s/?directConnection=true&tlsCAFile=%s&tlsCertificateKeyFile=%s", user, host, a.CAFile, client.File)
	}
	if all := doctor(t, "--uri", at("root")); len(all) != 0 {
		t.Fatalf("a healthy server has findings: %+v", all)
	}
	root := testkit.Connect(t, rootOptions(s, a.Trusting(client)))
	db := root.Database("app")
	due := bson.D{{Key: "at", Value: time.Now().Add(-time.Hour)}}
	insert := func(coll string, d bson.D) {
		t.Helper()
		if _, err := db.Collection(coll).InsertOne(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	ttl := func(coll, field string, settings bson.D) {
		t.Helper()
		run(t, db, bson.D{{Key: "createIndexes", Value: coll}, {Key: "indexes", Value: bson.A{bson.D{{Key: "key", Value: bson.D{{Key: field, Value: 1}}}, {Key: "name", Value: field},
			{Key: "expireAfterSeconds", Value: 60}, {Key: "storageEngine", Value: bson.D{{Key: "mayfly", Value: bson.D{{Key: "expiry", Value: settings}}}}}}}}})
	}
	insert("paused", due)
	ttl("paused", "at", bson.D{{Key: "paused", Value: true}})
	insert("dateless", bson.D{{Key: "at", Value: "yesterday"}})
	ttl("dateless", "at", bson.D{})
	insert("some", bson.D{{Key: "at", Value: time.Now().AddDate(1, 0, 0)}})
	insert("some", bson.D{{Key: "at", Value: "yesterday"}})
	ttl("some", "at", bson.D{})
	run(t, db, bson.D{{Key: "createIndexes", Value: "some"}, {Key: "indexes", Value: bson.A{bson.D{{Key: "key", Value: bson.D{{Key: "n", Value: 1}}}, {Key: "name", Value: "n"}}}}})
	a.Sign("server.pem", name, soon)
	run(t, root.Database("admin"), bson.D{{Key: "rotateCertificates", Value: 1}})
	repository := t.TempDir() + "/backups"
	if code, out := testkit.Exec(t, nil, "backup", "--uri", at("root"), "--to", repository); code != 0 {
		t.Fatalf("mayfly backup ended with %d: %s", code, out)
	}

	all := doctor(t, "--uri", at("root"), "--unusedFor", "1ns", "--backups", repository, "--backupAge", "1ns")
	paused := has(t, all, "rule-removes-nothing", "app.paused", "paused", "1 document is due")
	has(t, all, "rule-removes-nothing", "app.dateless", "no document has a Date in 'at'")
	has(t, all, "documents-without-date", "app.some", "1 of 2")
	has(t, all, "index-unused", "app.some: n")
	if f := has(t, all, "certificate", "CN=db"); f.Severity != "critical" {
		t.Errorf("a certificate that ends in five days is %s", f.Severity)
	}
	has(t, all, "backup-old", "standalone")
	if len(all) != 6 {
		t.Errorf("%d findings, 6 were provoked: %+v", len(all), all)
	}
	if want := `db.getSiblingDB("app").runCommand({collMod: "paused", index: {name: "at", storageEngine: {mayfly: {expiry: {paused: false}}}}})`; !slices.Contains(paused.Run, want) {
		t.Errorf("the remedy is %q", paused.Run)
	}
	run(t, db, bson.D{{Key: "collMod", Value: "paused"}, {Key: "index", Value: bson.D{{Key: "name", Value: "at"}, {Key: "storageEngine", Value: bson.D{{Key: "mayfly", Value: bson.D{{Key: "expiry", Value: bson.D{{Key: "paused", Value: false}}}}}}}}}})
	until(t, "the rule to remove what is due", func() bool { return len(doctor(t, "--uri", at("root"))) == 3 }) // what is left

	run(t, root.Database("admin"), bson.D{{Key: "createUser", Value: "bob"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{"readAnyDatabase"}}})
	has(t, doctor(t, "--uri", at("bob")), "not-examined", "serverStatus", "may not ask")
	run(t, root.Database("admin"), bson.D{{Key: "grantRolesToUser", Value: "bob"}, {Key: "roles", Value: bson.A{"clusterMonitor"}}})
	for _, f := range doctor(t, "--uri", at("bob")) {
		if f.Check == "not-examined" {
			t.Errorf("with the role that the manual names: %+v", f)
		}
	}
	for _, wrong := range [][]string{{"--uri", "http://x"}, {"--nothing"}, {"--backupAge", "0s"}} {
		if code, out := testkit.Exec(t, nil, append([]string{"doctor"}, wrong...)...); code != 2 || !strings.Contains(out, "Usage:") {
			t.Errorf("mayfly doctor %v ended with %d: %s", wrong, code, out)
		}
	}
	s.Kill()
	if code, out := testkit.Exec(t, nil, "doctor", "--uri", at("root")); code != 100 || !strings.Contains(out, host) {
		t.Errorf("without a server it ended with %d: %s", code, out)
	}
}

// A set whose member is killed, and then another one.
func TestDoctorOfSet(t *testing.T) {
	var members []*testkit.Server
	config := bson.A{}
	for i := range 3 {
		m := testkit.Start(t, "--replSet", "rs0")
		members = append(members, m)
		config = append(config, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: m.Host()}})
	}
	run(t, members[0].Direct().Database("admin"), bson.D{{Key: "replSetInitiate", Value: bson.D{{Key: "_id", Value: "rs0"}, {Key: "members", Value: config}}}})
	uri := "mongodb://" + members[0].Host() + "," + members[1].Host()
	until(t, "a set that is well", func() bool { return len(doctor(t, "--uri", uri)) == 0 })
	members[2].Kill()
	var all []finding
	until(t, "the member to be missed", func() bool {
		all = doctor(t, "--uri", uri)
		return len(all) == 2
	})
	has(t, all, "member-down", "rs0", members[2].Host())
	has(t, all, "one-failure", "2 of its 3")
	members[1].Kill()
	until(t, "the primary to step down", func() bool {
		all = doctor(t, "--uri", uri)
		return slices.ContainsFunc(all, func(f finding) bool { return f.Check == "no-primary" })
	})
	has(t, all, "no-primary", "rs0")
	has(t, all, "member-down", members[1].Host())
}

// A cluster, through its router.
func TestDoctorOfCluster(t *testing.T) {
	config := testkit.Start(t, "--configsvr", "--replSet", "cfg", "--initiate")
	shard := testkit.Start(t, "--shardsvr", "--replSet", "s0", "--initiate")
	router := testkit.StartRouter(t, "cfg/"+config.Host())
	admin := router.Client().Database("admin")
	run(t, admin, bson.D{{Key: "addShard", Value: "s0/" + shard.Host()}, {Key: "name", Value: "s0"}})
	run(t, admin, bson.D{{Key: "shardCollection", Value: "app.log"}, {Key: "key", Value: bson.D{{Key: "u", Value: "hashed"}}}})
	if all := without(doctor(t, "--uri", router.URI()), "one-failure"); len(all) != 0 {
		t.Fatalf("a healthy cluster has findings: %+v", all)
	}
	run(t, admin, bson.D{{Key: "balancerStop", Value: 1}})
	run(t, router.Client().Database("app"), bson.D{{Key: "createIndexes", Value: "log"}, {Key: "indexes", Value: bson.A{bson.D{{Key: "key", Value: bson.D{{Key: "at", Value: 1}}}, {Key: "name", Value: "at"},
		{Key: "expireAfterSeconds", Value: 60}, {Key: "storageEngine", Value: bson.D{{Key: "mayfly", Value: bson.D{{Key: "expiry", Value: bson.D{{Key: "paused", Value: true}}}}}}}}}}})
	all := without(doctor(t, "--uri", router.URI()), "one-failure")
	has(t, all, "balancer-off")
	has(t, all, "rule-removes-nothing", "app.log: at", "paused")
	if len(all) != 2 {
		t.Errorf("two findings were provoked: %+v", all)
	}
}
