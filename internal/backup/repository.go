package backup

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

const (
	repositoryFile   = "repository.json"
	repositoryFormat = 1
	sealedBy         = "AES-256-GCM"
)

// Repository is where backups are: a directory. Safe for use by many goroutines.
type Repository struct {
	dir string
	id  string
	key Key // nil: not encrypted
	// sweep removes, once, what writers that died have left.
	sweep func() error
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
// the directory is empty or missing.
func Open(dir string, key Key, create bool) (*Repository, error) {
	if strings.Contains(dir, "://") {
		return nil, fmt.Errorf("%s: only directories are supported as repositories", dir)
	}
	r := &Repository{dir: dir, key: key}
	r.sweep = sync.OnceValue(r.sweepTemp)
	b, err := os.ReadFile(r.path(repositoryFile))
	if errors.Is(err, fs.ErrNotExist) && create {
		return r, r.create()
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no repository of backups: %w", dir, err)
	}
	var info repositoryInfo
	if err := json.Unmarshal(b, &info); err != nil || info.Format < 1 || info.ID == "" {
		return nil, &DamageError{repositoryFile, errors.New("it cannot be read")}
	}
	r.id = info.ID
	switch {
	case info.Format > repositoryFormat:
		return nil, fmt.Errorf("%s has format %d, written by a newer version; this one reads up to %d", dir, info.Format, repositoryFormat)
	case info.Encryption == "" && key != nil:
		return nil, fmt.Errorf("%s is not encrypted, but a key was given", dir)
	case info.Encryption != "" && key == nil:
		return nil, fmt.Errorf("%s is encrypted: --encryptionKeyFile is needed", dir)
	case info.Encryption != "" && info.Encryption != sealedBy:
		return nil, fmt.Errorf("%s is encrypted by %s, which this version does not know", dir, info.Encryption)
	case key == nil:
		return r, nil
	}
	check, err := r.keyCheck()
	if err != nil {
		return nil, err
	}
	if !hmac.Equal([]byte(check), []byte(info.KeyCheck)) {
		return nil, fmt.Errorf("the key is not the one of %s", dir)
	}
	return r, nil
}

func (r *Repository) keyCheck() (string, error) {
	b, err := r.key.derive([]byte(r.id), "key check")
	return hex.EncodeToString(b), err
}

// create makes the repository.
func (r *Repository) create() error {
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	list, err := os.ReadDir(r.dir)
	if err != nil {
		return err
	}
	if len(list) > 0 {
		return fmt.Errorf("%s is neither empty nor a repository of backups", r.dir)
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
	temp := r.path(repositoryFile + ".tmp")
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, r.path(repositoryFile)); err != nil {
		return err
	}
	return syncDirectory(filepath.Clean(r.dir))
}
