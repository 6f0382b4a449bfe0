package driver

import (
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// as connects a driver as a user.
func as(t *testing.T, s *testkit.Server, user, password, db, mechanism string) *mongo.Client {
	t.Helper()
	return testkit.Connect(t, options.Client().ApplyURI(s.URI()).SetAuth(options.Credential{
		Username: user, Password: password, AuthSource: db, AuthMechanism: mechanism,
	}))
}

// TestAccessControl lets the first user in from this machine, then only who
// authenticates, and each do what its roles grant; all of it still after a
// restart.
func TestAccessControl(t *testing.T) {
	s := testkit.Start(t, "--auth")
	run := func(c *mongo.Client, db string, cmd bson.D) error {
		return c.Database(db).RunCommand(t.Context(), cmd).Err()
	}
	refused := func(err error, code int32) {
		t.Helper()
		var e mongo.CommandError
		if ce, ok := err.(mongo.CommandError); ok {
			e = ce
		}
		if e.Code != code && !(err != nil && strings.Contains(err.Error(), fmt.Sprintf("(%s)", map[int32]string{18: "AuthenticationFailed"}[code]))) {
			t.Fatalf("%v, want code %d", err, code)
		}
	}
	local := s.Client()
	refused(run(local, "app", bson.D{{Key: "find", Value: "c"}}), 13)
	create := func(name, password string, roles ...any) bson.D {
		return bson.D{{Key: "createUser", Value: name}, {Key: "pwd", Value: password}, {Key: "roles", Value: bson.A(roles)}}
	}
	if err := run(local, "admin", create("root", "top secret", "root")); err != nil {
		t.Fatal(err)
	}
	refused(run(local, "admin", create("second", "p", "root")), 13)
	root := as(t, s, "root", "top secret", "admin", "")
	if err := run(root, "app", create("ann", "pässword", "readWrite")); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		for _, mechanism := range []string{"", "SCRAM-SHA-1", "SCRAM-SHA-256"} {
			ann := as(t, s, "ann", "pässword", "app", mechanism)
			if _, err := ann.Database("app").Collection("c").InsertOne(t.Context(), eq("x", 1)); err != nil {
				t.Fatal(mechanism, err)
			}
			refused(run(ann, "app", bson.D{{Key: "dropDatabase", Value: 1}}), 13)
			refused(run(ann, "other", bson.D{{Key: "find", Value: "c"}}), 13)
			refused(run(as(t, s, "ann", "password", "app", mechanism), "app", eq("ping", 1)), 18)
		}
		if round == 0 {
			s.Kill()
			s.Run()
		}
	}
	n, err := as(t, s, "ann", "pässword", "app", "").Database("app").Collection("c").CountDocuments(t.Context(), bson.D{})
	if err != nil || n != 6 {
		t.Fatal(n, err)
	}
}
