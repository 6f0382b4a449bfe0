package nemesis

import (
	"context"
	"fmt"
	"maps"
	"syscall"

	"github.com/mayflydb/mayfly/internal/testkit"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// databases are those that workloads write.
var databases = []string{"app"}

// recover waits until all members are back.
func (s *set) recover() {
	s.t.Helper()
	for _, m := range s.members {
		m.signal(syscall.SIGCONT)
		m.start()
	}
	s.healing.Wait()
	until(s.t, "all members serve", s.whole)
}

// rest waits until every member has all that the set has.
func (s *set) rest() {
	s.t.Helper()
	until(s.t, "every member has the last write", func(ctx context.Context) error {
		p := s.primary()
		if p == nil {
			return fmt.Errorf("there is no primary")
		}
		return p.client.Database("rest").RunCommand(ctx, bson.D{{Key: "insert", Value: "rest"}, {Key: "documents", Value: bson.A{bson.D{}}},
			{Key: "writeConcern", Value: bson.D{{Key: "w", Value: members}, {Key: "wtimeout", Value: askTimeout.Milliseconds()}}}}).Err()
	})
}

// same demands that all members have the same, and that documents and index entries agree.
func (s *set) same() {
	s.t.Helper()
	read := options.RunCmd().SetReadPreference(readpref.Nearest())
	for _, db := range databases {
		var first map[string]string
		for _, m := range s.members {
			var h struct{ Collections map[string]string }
			if err := m.client.Database(db).RunCommand(s.t.Context(), bson.D{{Key: "dbHash", Value: 1}}, read).Decode(&h); err != nil {
				s.t.Fatalf("dbHash of member %d: %v", m.number, err)
			}
			switch {
			case len(h.Collections) == 0:
				s.t.Errorf("member %d has nothing", m.number)
			case first == nil:
				first = h.Collections
			case !maps.Equal(first, h.Collections):
				s.t.Errorf("member %d differs from the first:\n%v\n%v", m.number, h.Collections, first)
			}
			for name := range h.Collections {
				var v struct {
					Valid  bool
					Errors []string
				}
				if err := m.client.Database(db).RunCommand(s.t.Context(), bson.D{{Key: "validate", Value: name}, {Key: "full", Value: true}}, read).Decode(&v); err != nil || !v.Valid {
					s.t.Errorf("validate %s of member %d: %v %v", name, m.number, err, v.Errors)
				}
			}
		}
	}
}

// verify shuts all members down, and demands that what lies on their disks is whole.
func (s *set) verify() {
	s.t.Helper()
	for _, m := range s.members {
		m.end(syscall.SIGTERM)
		if m.code != 0 {
			s.t.Errorf("member %d has ended with code %d", m.number, m.code)
		}
		if code, out := testkit.Exec(s.t, nil, "verify", "--dbpath", m.dir); code != 0 {
			s.t.Errorf("verify of member %d: code %d\n%s", m.number, code, out)
		}
	}
}
