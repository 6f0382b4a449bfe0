package storage

import (
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflydb/mayfly/internal/seal"
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

// TestSyncOnFullDisk holds that a disk which is full when an encrypted file gives what it has kept
// is noted, that a vital file waits for space and another pauses, and that no sync is called again.
func TestSyncOnFullDisk(t *testing.T) {
	for _, finish := range []func(vfs.File) error{vfs.File.Sync, vfs.File.SyncData, vfs.File.Close} {
		for _, vital := range []bool{false, true} {
			for _, op := range []string{"write", "sync"} {
				t.Run(fmt.Sprint(op, vital), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testSyncOnFullDisk(t, finish, vital, op) })
				})
			}
		}
	}
}

func testSyncOnFullDisk(t *testing.T, finish func(vfs.File) error, vital bool, op string) {
	disk := NewMemFS()
	fs := &sealedFS{FS: disk, key: seal.NewKey(), id: seal.NewStoreID()}
	s := newSpace(fs, "", 1, logger{&Engine{opts: Options{}.withDefaults()}})
	sealed, err := fs.Create("000001.sst", "")
	if err != nil {
		t.Fatal(err)
	}
	f := &spaceFile{File: sealed, space: s, vital: vital}
	if _, err := f.Write([]byte("some")); err != nil {
		t.Fatal(err)
	}
	attempts, begun := 0, time.Now()
	disk.SetFault(func(is, _ string) error {
		if is != op {
			return nil
		}
		if attempts++; attempts <= 3 {
			return syscall.ENOSPC
		}
		return nil
	})
	err = finish(f)
	switch {
	case attempts == 0: // Close does not sync
	case !s.full.Load():
		t.Error("it is not noted that the disk is full")
	case time.Since(begun) < noSpaceRetry:
		t.Error("there was no pause")
	}
	if wants := op == "write" && vital; wants && (err != nil || attempts != 4) || !wants && attempts > 0 && !vfs.IsNoSpaceError(err) {
		t.Errorf("%v after %d attempts", err, attempts)
	}
	if op == "sync" && attempts > 1 {
		t.Errorf("there were %d syncs", attempts)
	}
}
