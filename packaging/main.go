package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// release is what is packaged.
type release struct {
	version string
	time    time.Time         // of the commit
	arches  []string          // sorted
	binary  map[string]string // path, by architecture (GOARCH)
	files   string            // directory of the other files in packages
	chart   string            // directory of the Helm chart
	compose string            // path of the file for docker compose
	out     string            // directory for what is made
}

func main() {
	r := release{binary: map[string]string{}}
	flag.StringVar(&r.version, "version", "", "version, 0.1.0")
	seconds := flag.Int64("time", 0, "time of the commit, in seconds since 1970")
	flag.StringVar(&r.files, "files", "files", "directory of the files in the packages")
	flag.StringVar(&r.chart, "chart", "chart", "directory of the Helm chart")
	flag.StringVar(&r.compose, "compose", "compose.yaml", "file for docker compose")
	flag.StringVar(&r.out, "out", "", "directory for what is made")
	flag.Func("binary", "architecture=path of a binary; may be repeated", func(text string) error {
		arch, path, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("want architecture=path")
		}
		r.arches, r.binary[arch] = append(r.arches, arch), path
		return nil
	})
	flag.Parse()
	r.time = time.Unix(*seconds, 0).UTC()
	slices.Sort(r.arches)
	if r.version == "" || r.out == "" || len(r.arches) == 0 || *seconds == 0 {
		fmt.Fprintln(os.Stderr, "packaging: -version, -time, -out and -binary are needed")
		os.Exit(2)
	}
	if err := r.make(); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

// make makes everything.
func (r *release) make() error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	for _, arch := range r.arches {
		if err := r.listNotices(arch); err != nil {
			return fmt.Errorf("notices of %s: %w", arch, err)
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.pack(format, arch); err != nil {
				return fmt.Errorf("%s of %s: %w", format, arch, err)
			}
		}
		if err := r.listMaterials(arch); err != nil {
			return fmt.Errorf("bill of materials of %s: %w", arch, err)
		}
		if err := copyFile(r.path("mayfly-%s-linux-%s", r.version, arch), r.binary[arch], 0o755); err != nil {
			return err
		}
	}
	if err := r.image(); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := r.kubernetes(); err != nil {
		return fmt.Errorf("for Kubernetes: %w", err)
	}
	if err := copyFile(r.path("mayfly-%s.compose.yaml", r.version), r.compose, 0o644); err != nil {
		return err
	}
	return r.sum()
}

// path is that of a file that is made.
func (r *release) path(format string, args ...any) string {
	return filepath.Join(r.out, fmt.Sprintf(format, args...))
}

func copyFile(to, from string, mode os.FileMode) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, mode)
}

// checksums is the file with the checksums of all others, as sha256sum writes and checks them.
const checksums = "SHA256SUMS"

func (r *release) sum() error {
	all, err := filepath.Glob(filepath.Join(r.out, "mayfly*"))
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, path := range all { // sorted
		sum := sha256.New()
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = io.Copy(sum, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sum.Sum(nil), filepath.Base(path))
	}
	return os.WriteFile(r.path(checksums), []byte(lines.String()), 0o644)
}
