package server

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// hungDisk is for how long an operation on the disk of a member may not end.
	hungDisk = 30 * time.Second
	// hungAgain is within what time after the first word of that there is another one, and
	// hungLater after what time at the earliest: a process that was stopped is told once
	// that an operation has taken long.
	hungAgain = 10 * time.Second
	hungLater = time.Second
	// lastLine is how long a process that ends tries to log why.
	lastLine = time.Second
)

// diskWatch ends the process of a member whose disk hangs, if there are other members. One of
// them leads long before; but this one cannot know, as it waits for its disk, and clients
// wait for it until their connections break.
type diskWatch struct {
	server *Server
	member atomic.Pointer[repl.Member] // nil while it is opened

	mu    sync.Mutex
	first time.Time // of the words that an operation has taken hungDisk
}

// open opens the store of the member.
func (w *diskWatch) open(dir string) (*storage.Engine, error) {
	o := w.server.engineOptions(dir)
	o.OnStall = func(path string, took time.Duration) {
		if m := w.member.Load(); w.hangs(took) && m != nil && hasOthers(m.State().Config) {
			w.end(fmt.Errorf("the disk hangs: an operation on %s has not ended for %v", path, took.Round(time.Second)))
		}
	}
	return storage.Open(o)
}

func hasOthers(c *repl.Config) bool { return c != nil && len(c.Members) > 1 }

// hangs reports whether the disk hangs, when an operation has taken so long.
func (w *diskWatch) hangs(took time.Duration) bool {
	if took < hungDisk {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if since := now.Sub(w.first); !w.first.IsZero() && since <= hungAgain {
		return since >= hungLater
	}
	w.first = now
	return false
}

// end ends the process. The connections go first: a thread that waits for the disk may keep
// the process there, and its log may be on the same disk.
func (w *diskWatch) end(err error) {
	w.server.disconnect()
	time.AfterFunc(lastLine, func() { os.Exit(config.ExitAbrupt) })
	w.server.memberFailed(err)
}
