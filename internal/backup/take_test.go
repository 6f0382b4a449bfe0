package backup

import (
	"context"
	"errors"
	"testing"
	"time"
)

// losing is a lock that is lost after some checks.
type losing struct{ left int }

var errTaken = errors.New("somebody else has it")

func (l *losing) Check(context.Context) error {
	if l.left--; l.left < 0 {
		return errTaken
	}
	return nil
}
func (l *losing) Unlock() error { return nil }

// TestPublish holds that there is no backup whose lock was lost before or while its manifest was
// stored.
func TestPublish(t *testing.T) {
	for checks, want := range []int{0, 0, 1} {
		r, err := Open(t.Context(), NewDirectory(t.TempDir()), nil, true)
		if err != nil {
			t.Fatal(err)
		}
		err = r.publish(t.Context(), &losing{checks}, &Manifest{Format: repositoryFormat, Taken: time.Unix(1_800_000_000, 0)})
		if errors.Is(err, errTaken) != (want == 0) {
			t.Errorf("after %d checks: %v", checks, err)
		}
		if all, err := r.Backups(t.Context()); err != nil || len(all) != want {
			t.Errorf("after %d checks there are %d backups: %v", checks, len(all), err)
		}
	}
}
