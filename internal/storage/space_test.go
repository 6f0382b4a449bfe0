package storage

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// measuredDisk calls during while somebody measures its free space.
type measuredDisk struct {
	vfs.FS
	during func()
}

func (d measuredDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	d.during()
	return vfs.DiskUsage{AvailBytes: 1 << 40}, nil
}

// TestALookIsFreshWhenItIsOver: who writes while another one looks at the disk
// for the first time must wait for what he finds, not be refused.
func TestALookIsFreshWhenItIsOver(t *testing.T) {
	looks := 0
	var s *space
	s = newSpace(measuredDisk{NewMemFS(), func() {
		if looks++; s.measuredAt.Load() != 0 {
			t.Error("the measurement counts before it has found anything")
		}
	}}, "data", 1<<20, logger{&Engine{opts: Options{}.withDefaults()}})
	if err := s.admit(100, false); err != nil || looks != 1 {
		t.Errorf("%v after %d looks", err, looks)
	}
}
