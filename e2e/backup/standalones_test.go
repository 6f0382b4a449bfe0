package backup

import (
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// TestStandalones holds that of two standalones in one repository none is restored for the other,
// and that a server keeps its id, which one that was restored from it does not have.
func TestStandalones(t *testing.T) {
	repository := filepath.Join(t.TempDir(), "repository")
	for _, name := range []string{"one", "two"} {
		s := testkit.Start(t)
		if _, err := s.Client().Database("app").Collection(name).InsertOne(t.Context(), bson.D{}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			mayfly(t, 0, "backup", "--uri", "mongodb://"+host(s), "--to", repository)
		}
	}
	ids := func() (all []string) {
		for line := range strings.Lines(mayfly(t, 0, "backup", "list", "--from", repository)) {
			_, id, _ := strings.Cut(line, "standalone ")
			id, _, _ = strings.Cut(id, " ")
			all = append(all, id)
		}
		return all
	}
	all := ids()
	if len(all) != 4 || all[0] != all[1] || all[2] != all[3] || all[0] == all[2] || len(all[0]) != 32 {
		t.Fatalf("the servers have the ids %q", all)
	}
	out := mayfly(t, 100, "restore", "--from", repository, "--to", filepath.Join(t.TempDir(), "new"))
	if !strings.Contains(out, all[0]) || !strings.Contains(out, all[2]) || !strings.Contains(out, "--set says which") {
		t.Errorf("what is restored was not asked: %s", out)
	}
	dir := filepath.Join(t.TempDir(), "new")
	mayfly(t, 0, "restore", "--from", repository, "--to", dir, "--set", all[0])
	s := testkit.StartIn(t, dir)
	if names, err := s.Client().Database("app").ListCollectionNames(t.Context(), bson.D{}); err != nil || len(names) != 1 || names[0] != "one" {
		t.Errorf("the server has the collections %q: %v", names, err)
	}
	mayfly(t, 0, "backup", "--uri", "mongodb://"+host(s), "--to", repository)
	if all := ids(); len(all) != 5 || all[4] == all[0] || all[4] == all[2] {
		t.Errorf("with the restored one the servers have the ids %q", all)
	}
	mayfly(t, 0, "backup", "prune", "--from", repository, "--keep", "1")
	if all := ids(); len(all) != 3 {
		t.Errorf("of three servers %q stay", all)
	}
}
