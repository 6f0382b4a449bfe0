package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/config"
)

// logOutput is the destination of lines, of the log or the audit log: a file that can be rotated, or standard output.
type logOutput struct {
	path   string // "" for standard output
	reopen bool   // rotate reopens the same name, without renaming first
	mu     struct {
		sync.Mutex
		w io.Writer // nil when closed
	}
}

// openOutput opens the log file. Unless it is appended to, a file that exists is moved
// away first, as mongod does.
func openOutput(o config.Log) (*logOutput, error) {
	out := &logOutput{path: o.Path, reopen: o.Rotate == "reopen"}
	if o.Path == "" {
		out.mu.w = os.Stdout
		return out, nil
	}
	if !o.Append {
		if err := moveAway(o.Path); err != nil {
			return nil, err
		}
	}
	f, err := openFile(o.Path)
	out.mu.w = f
	return out, err
}

func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the log file: %w", err)
	}
	return f, nil
}

// moveAway appends the time to the name of a file, if it exists.
func moveAway(path string) error {
	base := path + "." + time.Now().UTC().Format("2006-01-02T15-04-05")
	to := base
	for i := 1; ; i++ { // keep a file that was moved in the same second
		if _, err := os.Lstat(to); err != nil {
			break
		}
		to = base + "-" + strconv.Itoa(i)
	}
	if err := os.Rename(path, to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot move the old log file away: %w", err)
	}
	return nil
}

// Write writes a line. Of one that does not fit on the disk nothing is left.
func (o *logOutput) Write(line []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.w == nil {
		return nil
	}
	n, err := o.mu.w.Write(line)
	if f, ok := o.mu.w.(*os.File); ok && err != nil && n > 0 && o.path != "" {
		if info, bad := f.Stat(); bad == nil {
			_ = f.Truncate(info.Size() - int64(n))
		}
	}
	return err
}

// Rotate starts a new file.
func (o *logOutput) Rotate() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	old, ok := o.mu.w.(*os.File)
	if o.path == "" || !ok {
		return nil
	}
	if !o.reopen {
		if err := moveAway(o.path); err != nil {
			return err
		}
	}
	f, err := openFile(o.path)
	if err != nil {
		return err
	}
	o.mu.w = f
	return old.Close()
}

// Close ends the output.
func (o *logOutput) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	f, ok := o.mu.w.(*os.File)
	o.mu.w = nil
	if !ok || o.path == "" {
		return nil
	}
	return f.Close()
}
