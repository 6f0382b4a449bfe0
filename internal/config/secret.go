package config

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/internal/seal"
	"go.yaml.in/yaml/v3"
)

// Masked stands where a secret was given; mongod says the same.
const Masked = "<password>"

// maxSecretBytes bounds a file that holds a secret.
const maxSecretBytes = 4 << 10

// isSecretFlag reports whether an argument names an option whose value is a secret.
// One dash is as good as two.
func isSecretFlag(arg string) bool {
	name := strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-")
	return name != arg && slices.ContainsFunc(table, func(p option) bool {
		return p.secret && (p.flag == name || slices.Contains(p.aliases, name))
	})
}

// maskedArgv is a command line without the secrets in it.
func maskedArgv(argv []string) []string {
	argv = slices.Clone(argv)
	for i := 0; i < len(argv); i++ {
		name, _, joined := strings.Cut(argv[i], "=")
		switch {
		case !isSecretFlag(name):
		case joined:
			argv[i] = name + "=" + Masked
		case i+1 < len(argv):
			i++
			argv[i] = Masked
		}
	}
	return argv
}

// cosmosKey reads the account key where it stands in a file.
func (l *loader) cosmosKey() {
	o := &l.options.Cosmos
	switch {
	case o.KeyFile == "":
	case o.Key != "":
		l.fail("cosmos.keyFile", "cannot be set together with cosmos.key")
	default:
		key, err := readSecret(o.KeyFile)
		if err == nil && key == "" {
			l.fail("cosmos.keyFile", "%s is empty", o.KeyFile)
		} else if err != nil {
			l.fail("cosmos.keyFile", "%v", err)
		}
		o.Key = key
	}
}

// memberKey reads the key of a replica set, as mongod does: space in it does not count,
// and no other user may read the file. A key file turns on access control for clients, too.
func (l *loader) memberKey() {
	o := &l.options.Security
	if o.ClusterAuth == AuthX509 {
		o.Authorization = true
	}
	if o.KeyFile == "" && o.ClusterAuth == AuthX509 {
		return
	}
	if o.KeyFile == "" {
		if o.ClusterAuth != AuthKeyFile {
			l.fail("security.clusterAuthMode", "%s needs security.keyFile", o.ClusterAuth)
		}
		if o.Authorization && l.options.Replication.Set != "" {
			// Otherwise clients would have to authenticate, and processes that claim to be
			// members would not.
			l.fail("security.keyFile", "is required when authorization is enabled with replica sets")
		}
		return
	}
	keys, err := ReadMemberKeys(o.KeyFile)
	if err != nil {
		l.fail("security.keyFile", "%v", err)
		return
	}
	o.Keys, o.Authorization = keys, true
}

// ReadMemberKeys reads a file with the key, or the two keys, by which servers of a set or cluster
// know each other.
func ReadMemberKeys(path string) ([]string, error) {
	key, err := readOwnSecret(path)
	if err != nil {
		return nil, err
	}
	keys := []string{key}
	if strings.HasPrefix(key, "-") { // no key begins so: a list, in YAML
		keys = nil
		if err := yaml.Unmarshal([]byte(key), &keys); err != nil || len(keys) == 0 || len(keys) > maxKeys {
			return nil, fmt.Errorf("%s is no list of one or two keys", path)
		}
	}
	for i, key := range keys {
		key = strings.Join(strings.Fields(key), "")
		if len(key) < 6 || len(key) > 1024 || strings.Trim(key, base64Letters) != "" {
			return nil, fmt.Errorf("%s has no key: 6 to 1024 characters of base64", path)
		}
		keys[i] = key
	}
	return keys, nil
}

// masterKey reads the key of an encrypted data directory, which no other user may.
func (l *loader) masterKey() {
	o := &l.options.Security
	switch {
	case !o.Encryption:
		if o.EncryptionKeyFile != "" {
			l.fail("security.encryptionKeyFile", "needs security.enableEncryption")
		}
		if o.EncryptionKeyCommand != "" {
			l.fail("security.encryptionKeyCommand", "needs security.enableEncryption")
		}
		return
	case o.EncryptionKeyFile != "" && o.EncryptionKeyCommand != "":
		l.fail("security.encryptionKeyFile", "cannot be set together with security.encryptionKeyCommand")
		return
	case o.EncryptionKeyCommand != "":
		return
	case o.EncryptionKeyFile == "":
		l.fail("security.enableEncryption", "needs security.encryptionKeyFile, or security.encryptionKeyCommand")
		return
	}
	key, err := ReadMasterKey(o.EncryptionKeyFile)
	if err != nil {
		l.fail("security.encryptionKeyFile", "%v", err)
	}
	o.EncryptionKey = key
}

// ReadMasterKey reads the file with the master key of an encrypted data directory.
func ReadMasterKey(path string) (seal.Key, error) {
	text, err := readOwnSecret(path)
	if err != nil {
		return nil, err
	}
	key, err := seal.ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// maxKeys is how many keys a file can have, as in mongod: the one that was, and the one to come.
const maxKeys = 2

const base64Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="

// readOwnSecret is readSecret of a file that no other user may read. One that is root's may be
// readable by a group, too, as PostgreSQL has it: so Kubernetes mounts secrets.
func readOwnSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	open := os.FileMode(0o077)
	if os.Geteuid() != 0 && ofRoot(info) {
		open = 0o037
	}
	if info.Mode().Perm()&open != 0 {
		return "", fmt.Errorf("permissions on %s are too open", path)
	}
	return readSecret(path)
}

// readSecret is the content of a file, without the space around it.
func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecretBytes+1))
	if len(b) > maxSecretBytes {
		return "", fmt.Errorf("%s is longer than %d bytes", path, maxSecretBytes)
	}
	return strings.TrimSpace(string(b)), err
}
