package server

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestDiskWatch holds that a disk hangs where an operation is said to take long more than
// once, and not where the process was stopped meanwhile.
func TestDiskWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w diskWatch
		say := func(took time.Duration, want bool) {
			t.Helper()
			if w.hangs(took) != want {
				t.Errorf("after %v: %v", took, !want)
			}
		}
		say(hungDisk-time.Second, false)
		say(hungDisk, false)
		say(hungDisk, false) // another operation, at the same moment
		time.Sleep(2 * time.Minute)
		say(5*time.Second, false)
		say(2*time.Minute, false) // it was stopped
		time.Sleep(2 * hungAgain)
		for took := 5 * time.Second; took <= hungDisk; took += 5 * time.Second {
			say(took, false)
			time.Sleep(5 * time.Second)
		}
		say(hungDisk+5*time.Second, true)
	})
}
