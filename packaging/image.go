package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageUser is who the server runs as in a container: nobody in particular.
const imageUser = 65532

// image makes an OCI image of one binary, for each architecture, in one archive, which podman load,
// skopeo copy oci-archive:, and ctr and docker on containerd's store read. The name is that of an
// index of the architectures: of several images with one name, containerd keeps the last.
func (r *release) image() (err error) {
	dir, err := os.MkdirTemp("", "mayfly-image-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	all := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range r.arches {
		image, err := r.imageOf(arch)
		if err != nil {
			return err
		}
		all = mutate.AppendManifests(all, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), mutate.IndexAddendum{Add: all, Descriptor: v1.Descriptor{
		Annotations: map[string]string{"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": "docker.io/mayflydb/mayfly:" + r.version},
	}})
	if _, err := layout.Write(dir, index); err != nil {
		return err
	}
	f, err := os.Create(r.path("mayfly-%s.oci.tar", r.version))
	if err != nil {
		return err
	}
	return errors.Join(r.archive(f, dir), f.Close())
}

// archive writes a directory as a tar file.
func (r *release) archive(to io.Writer, dir string) error {
	w := tar.NewWriter(to)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // in order of names
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: r.time})
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return write(w, name, 0o644, r.time, b)
	})
	return errors.Join(err, w.Close())
}

func write(w *tar.Writer, name string, mode int64, at time.Time, b []byte) error {
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(b)), ModTime: at})
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// imageOf makes the image of one architecture: from scratch, with one binary, and a directory
// for the data and one for sockets and temporary files.
func (r *release) imageOf(arch string) (v1.Image, error) {
	binary, err := os.ReadFile(r.binary[arch])
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, d := range []struct {
		name string
		mode int64
		user int
	}{{"data/", 0o755, 0}, {"data/db/", 0o700, imageUser}, {"tmp/", 0o1777, 0}} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d.name, Mode: d.mode, Uid: d.user, Gid: d.user, ModTime: r.time}); err != nil {
			return nil, err
		}
	}
	notices, err := os.ReadFile(r.notices(arch))
	if err != nil {
		return nil, err
	}
	if err := errors.Join(write(w, "mayfly", 0o755, r.time, binary), write(w, "notices.txt", 0o644, r.time, notices), w.Close()); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "mayfly make dist"}}); err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, r.config(image, arch))
}

// config is how a container of the image runs.
func (r *release) config(image v1.Image, arch string) *v1.ConfigFile {
	c, err := image.ConfigFile()
	if err != nil { // it was made here
		panic(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Created = "linux", arch, v1.Time{Time: r.time}
	c.Config = v1.Config{
		Entrypoint: []string{"/mayfly"}, Cmd: []string{"serve", "--bind_ip_all", "--dbpath", "/data/db", "--nounixsocket"},
		User: "65532:65532", WorkingDir: "/", StopSignal: "SIGTERM",
		ExposedPorts: map[string]struct{}{"27017/tcp": {}}, Volumes: map[string]struct{}{"/data/db": {}},
		Healthcheck: &v1.HealthConfig{Test: []string{"CMD", "/mayfly", "run", `{"hello": 1}`}, Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: 30 * time.Second, Retries: 3},
		Labels: map[string]string{"org.opencontainers.image.title": "mayfly", "org.opencontainers.image.version": r.version, "org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source": "https://github.com/mayflydb/mayfly"},
	}
	return c
}
