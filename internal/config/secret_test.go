package config

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSecretsAreMasked holds that a secret is in none of what options show, in
// whatever way it was given.
func TestSecretsAreMasked(t *testing.T) {
	const secret = "c2VjcmV0"
	for _, c := range []struct {
		args, env, argv []string
	}{
		{args: []string{"--cosmosKey", secret, "--port", "1"}, argv: []string{"mayfly", "--cosmosKey", Masked, "--port", "1"}},
		{args: []string{"--cosmosKey=" + secret}, argv: []string{"mayfly", "--cosmosKey=" + Masked}},
		{args: []string{"-cosmosKey", secret}, argv: []string{"mayfly", "-cosmosKey", Masked}},
		{env: []string{"MAYFLY_COSMOS_KEY=" + secret}, argv: []string{"mayfly"}},
	} {
		o, err := Load(Input{Argv: append([]string{"mayfly"}, c.args...), Args: c.args, Env: c.env})
		if err != nil {
			t.Fatal(err)
		}
		if o.Cosmos.Key != secret || !slices.Equal(o.Argv(), c.argv) {
			t.Errorf("%v: key %q, shown as %q", c.args, o.Cosmos.Key, o.Argv())
		}
		if !slices.Contains(o.Explicit(), Setting{"cosmos.key", Masked}) {
			t.Errorf("%v: %v", c.args, o.Explicit())
		}
	}
}

// TestSecretsAreMarked holds that what is called a key or a password is one.
func TestSecretsAreMarked(t *testing.T) {
	named := regexp.MustCompile(`(?i)(key|password|secret|token)$`)
	for _, p := range table {
		if _, switches := p.target(new(Options)).(*bool); !switches && named.MatchString(p.path) && !p.secret {
			t.Errorf("%s is shown as it is", p.path)
		}
	}
}

func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", " c2VjcmV0\n")
	for _, c := range []struct {
		args     []string
		key, err string
	}{
		{args: []string{"--cosmosKeyFile", good}, key: "c2VjcmV0"},
		{args: []string{"--cosmosKeyFile", good, "--cosmosKey", "YQ=="}, err: "cannot be set together"},
		{args: []string{"--cosmosKeyFile", file("empty", "\n")}, err: "is empty"},
		{args: []string{"--cosmosKeyFile", file("long", strings.Repeat("a", maxSecretBytes+1))}, err: "longer than"},
		{args: []string{"--cosmosKeyFile", filepath.Join(dir, "none")}, err: "no such file"},
	} {
		o, err := Load(Input{Args: c.args})
		switch {
		case c.err == "" && (err != nil || o.Cosmos.Key != c.key):
			t.Errorf("%v: %v, %v", c.args, o, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%v: %v", c.args, err)
		}
	}
}

// TestMemberKey holds that the key of a replica set is read as mongod reads it, and that
// it turns access control on.
func TestMemberKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	for _, c := range []struct {
		text  string
		mode  os.FileMode
		wrong string
	}{
		{" c2Vj\ncmV0\n", 0o600, ""},
		{"c2VjcmV0", 0o400, ""},
		{"- c2VjcmV0\n- b3RoZXI=\n", 0o600, ""},
		{"---\n- c2VjcmV0\n", 0o600, ""},
		{"- c2VjcmV0\n- b3RoZXI=\n- dGhpcmQ=\n", 0o600, "one or two"},
		{"- c2VjcmV0\n- b3Ro\n", 0o600, "6 to 1024"},
		{"-", 0o600, "one or two"},
		{"c2VjcmV0", 0o640, "too open"},
		{"c2Vj", 0o600, "6 to 1024"},
		{"c2VjcmV0!", 0o600, "6 to 1024"},
		{strings.Repeat("a", 1025), 0o600, "6 to 1024"},
	} {
		_ = os.Remove(file)
		if err := os.WriteFile(file, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		o, err := Load(Input{Args: []string{"--keyFile", file}})
		switch {
		case c.wrong != "":
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%q with %o: %v", c.text, c.mode, err)
			}
		case err != nil || o.Security.Keys[0] != "c2VjcmV0" || strings.Contains(c.text, "b3") && !slices.Equal(o.Security.Keys[1:], []string{"b3RoZXI="}) || !o.Security.Authorization:
			t.Errorf("%q with %o: %+v, %v", c.text, c.mode, o, err)
		}
	}
}

// Who checks what clients may do checks who is a member, too.
func TestKeyFileRequired(t *testing.T) {
	_, err := Load(Input{Args: []string{"--replSet", "rs0", "--auth"}})
	if err == nil || !strings.Contains(err.Error(), "security.keyFile: is required when authorization is enabled with replica sets") {
		t.Errorf("--auth of a member without a key: %v", err)
	}
}

// TestMasterKey holds which options about encryption at rest go together, and what the file
// with the master key must be.
func TestMasterKey(t *testing.T) {
	good, open, none := filepath.Join(t.TempDir(), "good"), filepath.Join(t.TempDir(), "open"), filepath.Join(t.TempDir(), "none")
	key := strings.Repeat("A", 43) + "=\n"
	for path, text := range map[string]string{good: key, open: key, none: "AAAA"} {
		mode := os.FileMode(0o600)
		if path == open {
			mode = 0o640
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for args, wrong := range map[string]string{
		"--encryptionKeyFile " + good:                                                      "security.encryptionKeyFile: needs security.enableEncryption",
		"--encryptionKeyCommand /bin/cat":                                                  "security.encryptionKeyCommand: needs security.enableEncryption",
		"--enableEncryption":                                                               "needs security.encryptionKeyFile, or security.encryptionKeyCommand",
		"--enableEncryption --encryptionKeyFile " + open:                                   "too open",
		"--enableEncryption --encryptionKeyFile " + none:                                   "it has no key: 32 bytes in base64",
		"--enableEncryption --encryptionKeyFile " + good + "x":                             "no such file",
		"--enableEncryption --encryptionKeyCommand c --encryptionKeyFile " + good:          "cannot be set together",
		"--enableEncryption --encryptionCipherMode AES256-CBC --encryptionKeyFile " + good: "AES256-GCM",
		"--enableEncryption --kmipServerName kmip":                                         "security.encryptionKeyCommand runs one",
		"--kmipRotateMasterKey":                                                            "mayfly rotatekey",
		"--enableEncryption --encryptionKeyFile " + good:                                   "",
		"--enableEncryption --encryptionKeyCommand /usr/bin/kms":                           "",
	} {
		o, err := Load(Input{Args: strings.Fields(args)})
		switch {
		case wrong == "" && (err != nil || o.Security.MasterKey() == nil):
			t.Errorf("%s: %v", args, err)
		case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%s: %v", args, err)
		}
	}
	if o, err := Load(Input{}); err != nil || o.Security.MasterKey() != nil {
		t.Errorf("without encryption there is a master key: %v", err)
	}
}
