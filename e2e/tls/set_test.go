package tls

import (
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// patience is how long a set may take for what it does by itself.
const patience = 30 * time.Second

func host(s *testkit.Server) string { return fmt.Sprintf("localhost:%d", s.Port) }

// until repeats f until it succeeds.
func until(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if err = f(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// set are the members of a replica set with one authority.
type set struct {
	t       *testing.T
	a       *testkit.Authority
	client  *tls.Config
	members []*testkit.Server
	root    *mongo.Client
}

// startSet starts three members, initiates their set as a client on this machine that is not
// logged in may, and logs in as its first user.
func startSet(t *testing.T, args func(member int, a *testkit.Authority) []string) *set {
	a := testkit.NewAuthority(t, "Root")
	s := &set{t: t, a: a, client: a.Trusting(a.Sign("client.pem", ann, year))}
	config := bson.A{}
	for i := range 3 {
		m := testkit.StartTLS(t, s.client, "", append([]string{"--replSet", "rs0"}, args(i, a)...)...)
		s.members = append(s.members, m)
		config = append(config, bson.D{{Key: "_id", Value: i}, {Key: "host", Value: host(m)}})
	}
	anybody := connect(t, s.members[0], s.client).Database("admin")
	if err := anybody.RunCommand(t.Context(), bson.D{{Key: "replSetInitiate", Value: bson.D{{Key: "_id", Value: "rs0"}, {Key: "members", Value: config}}}}).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "the first user", func() error {
		return anybody.RunCommand(t.Context(), bson.D{{Key: "createUser", Value: "root"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{"root"}}}).Err()
	})
	s.root = s.login()
	return s
}

// login connects to the whole set as root.
func (s *set) login() *mongo.Client {
	var hosts []string
	for _, m := range s.members {
		hosts = append(hosts, host(m))
	}
	c, err := mongo.Connect(options.Client().ApplyURI("mongodb://root:pw@" + strings.Join(hosts, ",") + "/?replicaSet=rs0").SetTLSConfig(s.client).SetServerSelectionTimeout(patience))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Disconnect(context.Background()) }) // its members may have gone
	return c
}

// writes demands a write on a number of members.
func (s *set) writes(what string, w int) {
	s.t.Helper()
	until(s.t, what, func() error {
		return s.root.Database("app").RunCommand(s.t.Context(), bson.D{{Key: "insert", Value: "docs"}, {Key: "documents", Value: bson.A{bson.D{}}},
			{Key: "writeConcern", Value: bson.D{{Key: "w", Value: w}, {Key: "wtimeout", Value: 1000}}}}).Err()
	})
}

// Members that know each other by their certificates make a set, which survives its primary. A
// process whose certificate has another organization, or is of another authority, is no member.
func TestMembersByCertificate(t *testing.T) {
	s := startSet(t, func(i int, a *testkit.Authority) []string {
		holder := server
		holder.CommonName = fmt.Sprintf("db%d", i)
		return []string{"--tlsMode", "requireTLS", "--clusterAuthMode", "x509", "--tlsCAFile", a.CAFile, "--tlsCertificateKeyFile", a.Sign(fmt.Sprintf("m%d.pem", i), holder, year).File}
	})
	s.writes("a write on all three", 3)
	third := s.members[2]
	args := third.Args
	foreigner := s.a.Sign("foreigner.pem", pkix.Name{CommonName: "db2", Organization: []string{"Another"}, OrganizationalUnit: []string{"db"}}, year)
	third.Stop()
	third.Args = append(append([]string{}, args[:len(args)-1]...), foreigner.File)
	third.Run()
	until(t, "the log of another member", func() error {
		if !strings.Contains(s.members[0].Output()+s.members[1].Output(), "the certificate of the other process is not that of a member") {
			return fmt.Errorf("says nothing")
		}
		return nil
	})
	third.Stop()
	third.Args = args
	third.Run()
	s.writes("a write on all three, when the certificate is right again", 3)
	s.members[0].Kill()
	s.writes("a write without the primary", 2)
}

// A set goes from no encryption and a key file to TLS and certificates, one member after the
// other, while it takes writes. (Manual: "Upgrade a Cluster to Use TLS/SSL", "Upgrade from
// Keyfile Authentication to x.509 Authentication".)
func TestUpgradeToCertificates(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("b3VycyBhbG9uZQ=="), 0o400); err != nil {
		t.Fatal(err)
	}
	with := func(a *testkit.Authority, mode, auth string) []string {
		args := []string{"--replSet", "rs0", "--tlsMode", mode, "--clusterAuthMode", auth, "--tlsCAFile", a.CAFile, "--tlsCertificateKeyFile", a.Sign("member.pem", server, year).File}
		if auth != "x509" {
			args = append(args, "--keyFile", key)
		}
		return args
	}
	s := startSet(t, func(_ int, a *testkit.Authority) []string { return with(a, "allowTLS", "keyFile")[2:] })
	s.writes("a write on all three", 3)
	for _, step := range [][2]string{{"preferTLS", "sendKeyFile"}, {"preferTLS", "sendX509"}, {"requireTLS", "x509"}} {
		for _, m := range s.members {
			m.Stop()
			m.Args = with(s.a, step[0], step[1])
			m.Run()
			s.writes("a write on all three while a member of another mode is there", 3)
		}
	}
}

// A cluster whose parts know each other by their certificates: a router, a shard, config
// servers, and a client with TLS.
func TestClusterByCertificate(t *testing.T) {
	a := testkit.NewAuthority(t, "Root")
	client := a.Trusting(a.Sign("client.pem", ann, year))
	args := []string{"--tlsMode", "requireTLS", "--clusterAuthMode", "x509", "--tlsCAFile", a.CAFile, "--tlsCertificateKeyFile", a.Sign("member.pem", server, year).File}
	config := testkit.StartTLS(t, client, "", append([]string{"--configsvr", "--replSet", "cfg", "--initiate"}, args...)...)
	shard := testkit.StartTLS(t, client, "", append([]string{"--shardsvr", "--replSet", "s0", "--initiate"}, args...)...)
	router := testkit.StartTLS(t, client, "cfg/"+host(config), args...)
	admin := connect(t, router, client).Database("admin")
	until(t, "the first user of the cluster", func() error {
		return admin.RunCommand(t.Context(), bson.D{{Key: "createUser", Value: "root"}, {Key: "pwd", Value: "pw"}, {Key: "roles", Value: bson.A{"root"}}}).Err()
	})
	root := connect(t, router, client, options.Client().SetAuth(options.Credential{Username: "root", Password: "pw"}))
	for _, cmd := range []bson.D{
		{{Key: "addShard", Value: "s0/" + host(shard)}},
		{{Key: "shardCollection", Value: "app.events"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}},
	} {
		if err := root.Database("admin").RunCommand(t.Context(), cmd).Err(); err != nil {
			t.Fatalf("%v: %v", cmd, err)
		}
	}
	if _, err := root.Database("app").Collection("events").InsertOne(t.Context(), bson.D{}); err != nil {
		t.Fatal(err)
	}
	if err := root.Database("admin").RunCommand(t.Context(), bson.D{{Key: "rotateCertificates", Value: 1}}).Err(); err != nil {
		t.Error(err)
	}
}
