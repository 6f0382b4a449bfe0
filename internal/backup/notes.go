package backup

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"strings"

	"github.com/mayflydb/mayfly/internal/objectstore"
)

// ownerNote begins what is noted of an owner.
const ownerNote = "owner-"

// notes are what a backup notes while it is taken, so that the next one goes on where it
// was killed: empty files, whose names say it, and which are only hints. A lock keeps two from
// taking a backup of one server.
type notes struct {
	r     *Repository
	begin string // of the names
	lock  objectstore.Lock
	names []string
	owner string            // by which the server knows the backup
	again bool              // it was killed before
	known map[string]string // objects by the identities of files
}

// openNotes opens the notes about the backup of a server. The context that it returns ends with
// their lock.
func (r *Repository) openNotes(ctx context.Context, host string) (_ context.Context, u *notes, err error) {
	sum := sha256.Sum256([]byte(host))
	u = &notes{r: r, begin: path.Join(notesDirectory, hex.EncodeToString(sum[:8])), known: map[string]string{}}
	ctx, u.lock, err = r.store.Lock(ctx, u.begin, true)
	if err != nil {
		return nil, nil, fmt.Errorf("another mayfly backup of %s writes to this repository: %w", host, err)
	}
	if err := u.read(ctx); err != nil {
		_ = u.lock.Unlock() // nothing was written
		return nil, nil, err
	}
	return ctx, u, nil
}

func (u *notes) read(ctx context.Context) error {
	all, err := u.r.store.List(ctx, notesDirectory)
	if err != nil {
		return err
	}
	for _, f := range all {
		note, ok := strings.CutPrefix(f.Name, u.begin+"-")
		if !ok {
			continue
		}
		u.names = append(u.names, f.Name)
		if owner, ok := strings.CutPrefix(note, ownerNote); ok {
			u.owner, u.again = owner, true
		} else if identity, sum, ok := strings.Cut(note, "-"); ok && isSum(sum) {
			u.known[identity] = path.Join(filesDirectory, sum)
		}
	}
	if u.again {
		return nil
	}
	u.owner = rand.Text()
	return u.add(ctx, ownerNote+u.owner)
}

func (u *notes) add(ctx context.Context, note string) error {
	f, err := u.r.store.Temp(ctx)
	if err != nil {
		return err
	}
	defer discard(f)
	u.names = append(u.names, u.begin+"-"+note)
	return u.r.store.Put(ctx, u.begin+"-"+note, f)
}

// noteFrom is the size of a file, in bytes, from which on it is noted. A smaller one is read again
// sooner than three more syncs of the disk take: of what has changed, most files are small.
const noteFrom = 1 << 20

// stored notes that a file is in the repository.
func (u *notes) stored(ctx context.Context, f *remoteFile, object string) error {
	if f.identity == "" || f.size < noteFrom {
		return nil
	}
	return u.add(ctx, f.identity+"-"+path.Base(object))
}

// end removes the notes: the backup is complete.
func (u *notes) end(ctx context.Context) error {
	for _, name := range u.names {
		if err := u.r.store.Remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
