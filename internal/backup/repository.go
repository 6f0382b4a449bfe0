package backup

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/objectstore"
)

const (
	repositoryFile   = "repository.json"
	repositoryLock   = "repository"
	repositoryFormat = 1
	sealedBy         = "AES-256-GCM"
	maxInfo          = 64 << 10 // of repositoryFile
)

// Repository is where backups are. Safe for use by many goroutines.
type Repository struct {
	store objectstore.Store
	id    string
	key   Key // nil: not encrypted
}

// repositoryInfo is the content of repositoryFile.
type repositoryInfo struct {
	Format      int    `json:"format"`
	ID          string `json:"id"`
	Compression string `json:"compression"`
	Encryption  string `json:"encryption,omitempty"`
	KeyCheck    string `json:"keyCheck,omitempty"` // proves that a key is the right one
}

// Open opens a repository. key is nil for one that is not encrypted. With create it is made if
// there is nothing in the store.
func Open(ctx context.Context, store objectstore.Store, key Key, create bool) (*Repository, error) {
	r := &Repository{store: store, key: key}
	info, err := r.info(ctx)
	if errors.Is(err, fs.ErrNotExist) && create {
		return r, r.create(ctx)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is no repository of backups: %w", store, err)
	}
	if err != nil {
		return nil, err
	}
	r.id = info.ID
	switch {
	case info.Format > repositoryFormat:
		return nil, fmt.Errorf("%s has format %d, written by a newer version; this one reads up to %d", store, info.Format, repositoryFormat)
	case info.Encryption == "" && key != nil:
		return nil, fmt.Errorf("%s is not encrypted, but a key was given", store)
	case info.Encryption != "" && key == nil:
		return nil, fmt.Errorf("%s is encrypted: --encryptionKeyFile is needed", store)
	case info.Encryption != "" && info.Encryption != sealedBy:
		return nil, fmt.Errorf("%s is encrypted by %s, which this version does not know", store, info.Encryption)
	case key == nil:
		return r, nil
	}
	check, err := r.keyCheck()
	if err != nil {
		return nil, err
	}
	if !hmac.Equal([]byte(check), []byte(info.KeyCheck)) {
		return nil, fmt.Errorf("the key is not the one of %s", store)
	}
	return r, nil
}

func (r *Repository) keyCheck() (string, error) {
	b, err := r.key.derive([]byte(r.id), "key check")
	return hex.EncodeToString(b), err
}

// create makes the repository.
func (r *Repository) create(ctx context.Context) (err error) {
	list, err := r.store.List(ctx, "")
	if err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(f objectstore.StoredFile) bool { return !isPassing(f.Name) }) {
		return fmt.Errorf("%s is neither empty nor a repository of backups", r.store)
	}
	ctx, lock, err := r.lock(ctx, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if _, err := r.info(ctx); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s was made by another mayfly backup at the same time: try again", r.store)
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // it never fails
	r.id = hex.EncodeToString(id)
	info := repositoryInfo{Format: repositoryFormat, ID: r.id, Compression: "zstd"}
	if r.key != nil {
		info.Encryption = sealedBy
		if info.KeyCheck, err = r.keyCheck(); err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return err
	}
	f, err := r.store.Temp(ctx)
	if err != nil {
		return err
	}
	defer discard(f)
	if _, err := f.Write(append(b, '\n')); err != nil {
		return err
	}
	return r.store.Put(ctx, repositoryFile, f)
}

// isPassing reports whether a file of a store may have been left by one who died before it made
// the repository.
func isPassing(name string) bool {
	return name == repositoryLock+".lock" || strings.HasPrefix(name, objectstore.TempDirectory+"/") || strings.HasPrefix(name, objectstore.LocksDirectory+"/")
}

// info reads what the repository is.
func (r *Repository) info(ctx context.Context) (info repositoryInfo, err error) {
	f, err := r.store.Get(ctx, repositoryFile)
	if err != nil {
		return info, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxInfo))
	if err != nil {
		return info, err
	}
	if err := json.Unmarshal(b, &info); err != nil || info.Format < 1 || info.ID == "" {
		return info, &DamageError{repositoryFile, errors.New("it cannot be read")}
	}
	return info, nil
}

// lock locks the repository: exclusive for who removes objects, else shared. It does not wait.
func (r *Repository) lock(ctx context.Context, exclusive bool) (context.Context, objectstore.Lock, error) {
	return r.store.Lock(ctx, repositoryLock, exclusive)
}
