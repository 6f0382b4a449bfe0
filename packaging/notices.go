package main

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"

	"github.com/mayflydb/mayfly/packaging/licence"
)

// noticesFile is the file of files that has the licences of what the console's page is built of.
const noticesFile = "console-licences"

// notices is the path of the file with the licences of what is in a binary.
func (r *release) notices(arch string) string {
	return r.path("mayfly-%s-linux-%s.notices.txt", r.version, arch)
}

// listNotices writes the licences and notices of the modules of which a binary is built, of Go, and
// of what is in the console's page: they ask for that. Their texts are in the module cache.
func (r *release) listNotices(arch string) error {
	info, err := buildinfo.ReadFile(r.binary[arch])
	if err != nil {
		return err
	}
	out, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	root, cache, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	var b bytes.Buffer
	b.WriteString("Mayfly has the Apache License 2.0. Its binary is built of these, too.\n")
	add := func(what, dir string) error {
		files, err := licence.Shippable(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		for _, f := range files {
			fmt.Fprintf(&b, "\n%s\n%s: %s\n%s\n\n%s\n", strings.Repeat("=", 80), what, f.Name, strings.Repeat("=", 80), strings.TrimSpace(f.Text))
		}
		return nil
	}
	if err := add("Go "+strings.TrimPrefix(info.GoVersion, "go"), root); err != nil {
		return err
	}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		path, err := module.EscapePath(m.Path)
		if err != nil {
			return err
		}
		version, err := module.EscapeVersion(m.Version)
		if err != nil {
			return err
		}
		if err := add(m.Path+" "+m.Version, filepath.Join(cache, filepath.FromSlash(path)+"@"+version)); err != nil {
			return err
		}
	}
	page, err := os.ReadFile(filepath.Join(r.files, noticesFile))
	if err != nil {
		return err
	}
	b.Write(page)
	return os.WriteFile(r.notices(arch), b.Bytes(), 0o644)
}
