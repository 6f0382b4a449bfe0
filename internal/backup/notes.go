package backup

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
)

// notes are what a backup notes while it is taken, so that the next one goes on where it
// was killed: lines of JSON, which are only hints. Its lock keeps two from taking a backup of
// one server.
type notes struct {
	path  string
	f     *os.File
	owner string            // by which the server knows the backup
	again bool              // it was killed before
	known map[string]string // objects by the identities of files
}

// noteLine is one of their lines.
type noteLine struct {
	Owner    string `json:"owner,omitempty"`
	Identity string `json:"identity,omitempty"`
	Object   string `json:"object,omitempty"`
}

// openNotes opens the notes about the backup of a server.
func (r *Repository) openNotes(host string) (*notes, error) {
	sum := sha256.Sum256([]byte(host))
	u := &notes{path: r.path(path.Join(notesDirectory, hex.EncodeToString(sum[:8]))), known: map[string]string{}}
	if err := os.MkdirAll(filepath.Dir(u.path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(u.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	u.f = f
	if err := lockFile(f, true); err != nil {
		return nil, errors.Join(fmt.Errorf("another mayfly backup of %s writes to this repository: %w", host, err), f.Close())
	}
	b, err := os.ReadFile(u.path)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	for line := range bytes.Lines(b) {
		var l noteLine
		if json.Unmarshal(line, &l) != nil {
			continue // it was cut off
		}
		if l.Owner != "" {
			u.owner, u.again = l.Owner, true
		}
		if l.Identity != "" && isSum(path.Base(l.Object)) {
			u.known[l.Identity] = l.Object
		}
	}
	if u.again {
		return u, nil
	}
	u.owner = rand.Text()
	if err := errors.Join(u.add(noteLine{Owner: u.owner}), f.Sync()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return u, nil
}

func (u *notes) add(l noteLine) error {
	b, err := json.Marshal(l)
	if err == nil {
		_, err = u.f.Write(append(append([]byte("\n"), b...), '\n')) // a line that was cut off ends
	}
	return err
}

// stored notes that a file is in the repository.
func (u *notes) stored(identity, object string) error {
	if identity == "" {
		return nil
	}
	return u.add(noteLine{Identity: identity, Object: object})
}

// end removes the notes: the backup is complete.
func (u *notes) end() error { return u.f.Truncate(0) }

func (u *notes) close() error { return u.f.Close() }
