package auth

import (
	"strings"
	"testing"

	"github.com/xdg-go/scram"

	"github.com/mayflydb/mayfly/internal/bson"
)

// TestScram lets the library's client talk to a Conversation, with the right
// password and with a wrong one.
func TestScram(t *testing.T) {
	iterations := func(string) int { return 5000 }
	credentials, err := Password{User: "ann", Text: "pencil", Iterations: iterations}.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	lookup := func(name string) (*User, error) {
		if name != "ann" {
			return nil, nil
		}
		return &User{Name: UserName{"ann", "test"}, Credentials: credentials}, nil
	}
	talk := func(user, password string, skip bool) bool {
		client, err := scram.SHA256.NewClient(user, password, "")
		if err != nil {
			t.Fatal(err)
		}
		c, err := NewConversation(ScramSHA256, skip, lookup)
		if err != nil {
			t.Fatal(err)
		}
		conv, said := client.NewConversation(), ""
		for range 4 {
			if said, err = conv.Step(said); err != nil {
				return false
			}
			answer, done, err := c.Step(said)
			if err != nil {
				return false
			}
			if done {
				_, err := conv.Step(answer)
				return skip && err == nil || !skip
			}
			if said = answer; conv.Done() {
				return false
			}
			if strings.HasPrefix(answer, "v=") {
				_, err := conv.Step(answer)
				answer, done, err2 := c.Step("what a driver of 2016 says here")
				return err == nil && err2 == nil && done && answer == ""
			}
		}
		return false
	}
	for _, skip := range []bool{false, true} {
		if !talk("ann", "pencil", skip) {
			t.Error("the right password is refused", skip)
		}
		if talk("ann", "pen", skip) || talk("bob", "pencil", skip) {
			t.Error("a wrong password is taken", skip)
		}
	}
}

// TestCovers holds which privileges cover which targets.
func TestCovers(t *testing.T) {
	for _, c := range []struct {
		grant, target Resource
		want          bool
	}{
		{AnyNormal, Namespace("a", "c"), true}, {AnyNormal, Namespace("a", "system.js"), false},
		{AnyNormal, Namespace("local", "c"), false}, {AnyNormal, Database("a"), true}, {AnyNormal, Cluster, false},
		{Database("a"), Namespace("a", "c"), true}, {Database("a"), Namespace("b", "c"), false},
		{Database("a"), Namespace("a", "system.profile"), false}, {Namespace("a", "c"), Database("a"), false},
		{Namespace("a", "c"), Namespace("a", "c"), true}, {resourceOf("", "c"), Namespace("a", "c"), true},
		{resourceOf("", "system.js"), Namespace("a", "system.js"), true}, {Cluster, Cluster, true},
		{Resource{form: formAny}, Namespace("local", "system.replset"), true}, {Resource{form: formAny}, Cluster, true},
		{bucketsOf("", ""), Namespace("a", "system.buckets.c"), true}, {bucketsOf("a", "c"), Namespace("a", "system.buckets.d"), false},
		{bucketsOf("a", ""), Namespace("a", "c"), false},
	} {
		p := &Principal{byResource: map[Resource]Actions{c.grant: Of(Find)}}
		if p.May(On(c.target, Find)) != c.want || p.May(On(c.target, Find, Insert)) {
			t.Errorf("%+v covers %+v: not %v", c.grant, c.target, c.want)
		}
	}
}

// TestRestrictions holds who may authenticate from where.
func TestRestrictions(t *testing.T) {
	lists := func(texts ...string) (ds []bson.Doc) {
		for _, text := range texts {
			ds = append(ds, bson.MustParse(`{"l": `+text+`}`).Lookup("l").Doc())
		}
		return ds
	}
	for _, c := range []struct {
		lists  []bson.Doc
		client string
		want   bool
	}{
		{nil, "anywhere", true},
		{lists(`[{"clientSource": ["10.0.0.0/8"]}]`), "10.1.2.3:5", true},
		{lists(`[{"clientSource": ["10.0.0.0/8"]}]`), "[::ffff:10.1.2.3]:5", true},
		{lists(`[{"clientSource": ["10.0.0.0/8"]}]`), "11.1.2.3:5", false},
		{lists(`[{"clientSource": ["10.0.0.0/8"]}, {"clientSource": ["11.1.2.3"]}]`), "11.1.2.3:5", true},
		{lists(`[{"clientSource": ["10.0.0.0/8"]}]`, `[{"clientSource": ["10.1.0.0/16"]}]`), "10.2.2.3:5", false},
		{lists(`[{"clientSource": ["::1"], "serverAddress": ["127.0.0.1"]}]`), "[::1]:5", true},
		{lists(`[{"serverAddress": ["127.0.0.2"]}]`), "[::1]:5", false},
		{lists(`[{"clientSource": ["10.0.0.0/8"]}]`), "anonymous unix socket", false},
	} {
		if allowed(c.lists, c.client, "127.0.0.1:27017") != c.want {
			t.Errorf("%v from %s: not %v", c.lists, c.client, c.want)
		}
	}
}
