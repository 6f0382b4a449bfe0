package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/sassoftware/go-rpmutils"
)

// dist is what make dist has made.
var dist = flag.String("dist", "../bin/dist", "directory of what make dist has made")

// only returns the one file of dist that a pattern matches.
func only(t *testing.T, pattern string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(*dist, pattern))
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %v, %v; want one file (make dist)", pattern, all, err)
	}
	return all[0]
}

// TestChecksums holds that the file of checksums has every other file, and the right sums.
func TestChecksums(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(*dist, checksums))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(*dist)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, e := range entries {
		if e.Name() == checksums || e.Name() == checksums+".asc" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(*dist, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(b), e.Name())
	}
	if string(b) != want.String() {
		t.Errorf("%s has\n%swant\n%s", checksums, b, &want)
	}
}

// TestMaterials holds that the bill of materials names the modules that the binary is made of.
func TestMaterials(t *testing.T) {
	f, err := os.Open(only(t, "mayfly-*-linux-"+runtime.GOARCH+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(f, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"std", "github.com/cockroachdb/pebble/v2", "go.etcd.io/raft/v3"} {
		i := slices.IndexFunc(*bom.Components, func(c cdx.Component) bool { return c.Name == name })
		if i < 0 || (*bom.Components)[i].Version == "" || !strings.HasPrefix((*bom.Components)[i].PackageURL, "pkg:golang/"+name+"@") {
			t.Errorf("the bill of materials has no %s", name)
		}
	}
	for _, c := range *bom.Components {
		if strings.Contains(c.Name, "mongo-driver") || strings.Contains(c.Name, "pgx") {
			t.Errorf("%s is in the server", c.Name)
		}
	}
}

// TestNotices holds that the licence of each module in the binary, and of each package in the
// console's page, is shipped.
func TestNotices(t *testing.T) {
	b, err := os.ReadFile(only(t, "mayfly-*-linux-"+runtime.GOARCH+".notices.txt"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(only(t, "mayfly-*-linux-"+runtime.GOARCH))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Go " + strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range info.Deps {
		want = append(want, m.Path+" "+m.Version)
	}
	lock, err := os.ReadFile("../console/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var npm struct {
		Packages map[string]struct {
			Version string
			Dev     bool
		}
	}
	if err := json.Unmarshal(lock, &npm); err != nil {
		t.Fatal(err)
	}
	for path, p := range npm.Packages {
		if path != "" && !p.Dev {
			want = append(want, strings.TrimPrefix(path, "node_modules/")+" "+p.Version+" (npm)")
		}
	}
	for _, w := range want {
		if !strings.Contains(string(b), "\n"+w+": ") {
			t.Errorf("no licence of %s is shipped (packaging/files/"+noticesFile+" has those of the console)", w)
		}
	}
}

// TestRPM holds that the package for RPM has the binary, the unit and the files for it, as
// configuration what people change, and scripts for its user.
func TestRPM(t *testing.T) {
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	f, err := os.Open(only(t, "mayfly-*."+arch+".rpm"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := rpmutils.ReadRpm(f)
	if err != nil {
		t.Fatal(err)
	}
	for tag, want := range map[int]string{rpmutils.NAME: "mayfly", rpmutils.LICENSE: "Apache-2.0", rpmutils.ARCH: arch, rpmutils.POSTIN: "useradd", rpmutils.PREUN: "systemctl disable", rpmutils.POSTUN: "daemon-reload"} {
		if text, err := p.Header.GetString(tag); err != nil || !strings.Contains(text, want) {
			t.Errorf("tag %d is %q, %v; want %s", tag, text, err, want)
		}
	}
	files, err := p.Header.GetFiles()
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]int{}
	const isConfig, noReplace = rpmutils.RPMFILE_CONFIG, rpmutils.RPMFILE_NOREPLACE
	for _, f := range files {
		modes[f.Name()] = f.Mode() & 0o777
		if f.UserName() != "root" || f.Mtime() != files[0].Mtime() {
			t.Errorf("%s is %s's, of %d", f.Name(), f.UserName(), f.Mtime())
		}
		if conf := f.Flags()&(isConfig|noReplace) == isConfig|noReplace; conf != strings.HasPrefix(f.Name(), "/etc/") {
			t.Errorf("%s has the flags %d", f.Name(), f.Flags())
		}
	}
	for name, mode := range map[string]int{"/usr/bin/mayfly": 0o755, "/etc/mayfly.conf": 0o644, "/usr/lib/systemd/system/mayfly.service": 0o644, "/etc/logrotate.d/mayfly": 0o644, "/usr/share/doc/mayfly/notices.txt": 0o644} {
		if modes[name] != mode {
			t.Errorf("%s has the mode %o, want %o", name, modes[name], mode)
		}
	}
}

// TestLogrotate holds that the audit log is rotated where the documents have it, and as its owner.
func TestLogrotate(t *testing.T) {
	b, err := os.ReadFile("files/logrotate")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../docs/operate/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, path, _ := strings.Cut(string(doc), "--auditPath ")
	path, _, _ = strings.Cut(path, "\n")
	head, settings, _ := strings.Cut(string(b), "{")
	for _, name := range []string{path, "/var/log/mayfly/mayfly.log"} {
		if !slices.ContainsFunc(strings.Fields(head), func(pattern string) bool { ok, _ := filepath.Match(pattern, name); return ok }) {
			t.Errorf("%s is not rotated", name)
		}
	}
	if !strings.Contains(settings, "su mayfly mayfly\n") {
		t.Error("it is rotated as root, in a directory that is not root's")
	}
}

// TestImage holds that the image is whole, and that what it has runs as it says: the command
// serves, the check of its health sees that, and the signal stops it. As root, in a root
// directory that has nothing else, and as the image's user.
func TestImage(t *testing.T) {
	image := imageFor(t, runtime.GOARCH)
	if err := validate.Image(image); err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	names := unpack(t, mutate.Extract(image), root)
	if want := []string{"data", "data/db", "mayfly", "notices.txt", "tmp"}; !slices.Equal(names, want) {
		t.Fatalf("the image has %q, want %q", names, want)
	}
	c := container{t: t, root: root, config: config}
	port := fmt.Sprint(freePort(t))
	server := c.command(append(slices.Clone(config.Config.Cmd), "--port", port)...)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Process.Kill() }()
	check := config.Config.Healthcheck.Test
	if check[0] != "CMD" || check[1] != config.Config.Entrypoint[0] || check[2] != "run" {
		t.Fatal(check)
	}
	healthy := func() error {
		return c.command("run", "--uri", "mongodb://127.0.0.1:"+port+"/?directConnection=true", check[len(check)-1]).Run()
	}
	for end := time.Now().Add(30 * time.Second); healthy() != nil; {
		if time.Now().After(end) {
			t.Fatalf("the container is not healthy:\n%s", server.Stdout)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := errors.Join(server.Process.Signal(syscall.SIGTERM), server.Wait()); err != nil {
		t.Error(err)
	}
	if healthy() == nil {
		t.Error("a container that has stopped is healthy")
	}
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// container runs commands as an engine does, as far as a test can.
type container struct {
	t      *testing.T
	root   string
	config *v1.ConfigFile
}

func (c *container) command(args ...string) *exec.Cmd {
	binary := c.config.Config.Entrypoint[0]
	var cmd *exec.Cmd
	if os.Getuid() == 0 {
		if c.config.Config.User != fmt.Sprintf("%d:%d", imageUser, imageUser) {
			c.t.Fatal(c.config.Config.User)
		}
		cmd = &exec.Cmd{Path: binary, Args: append([]string{binary}, args...), Dir: "/", SysProcAttr: &syscall.SysProcAttr{Chroot: c.root, Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}}
	} else {
		for i := range args {
			args[i] = strings.Replace(args[i], "/data/db", c.root+"/data/db", 1)
		}
		cmd = exec.Command(c.root+binary, args...)
	}
	cmd.Env = []string{"PATH=/"}
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd
}

// imageFor reads the image for an architecture.
func imageFor(t *testing.T, arch string) v1.Image {
	t.Helper()
	f, err := os.Open(only(t, "mayfly-*.oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	unpack(t, f, dir)
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Fatal(err)
	}
	m, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Manifests) != 1 || !strings.HasPrefix(m.Manifests[0].Annotations["io.containerd.image.name"], "docker.io/mayflydb/mayfly:") {
		t.Fatalf("the archive has %+v, want one image with a name", m.Manifests)
	}
	index, err := top.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	for _, d := range m.Manifests {
		if d.Platform.Architecture == arch {
			image, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return image
		}
	}
	t.Fatalf("there is no image for %s", arch)
	return nil
}

// unpack unpacks a tar file into dir, with owners as root, and returns the sorted names.
func unpack(t *testing.T, from io.Reader, dir string) (names []string) {
	t.Helper()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if err == io.EOF {
			slices.Sort(names)
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		path := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			var b []byte
			if b, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, b, 0o600)
			}
		}
		if err == nil {
			err = os.Chmod(path, h.FileInfo().Mode())
		}
		if err == nil && os.Getuid() == 0 {
			err = os.Chown(path, h.Uid, h.Gid)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
