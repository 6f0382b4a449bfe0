package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the formats
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// pack makes a package, "deb" or "rpm".
func (r *release) pack(format, arch string) error {
	file := func(name string) string { return filepath.Join(r.files, name) }
	content := func(source, destination, kind string, mode os.FileMode) *files.Content {
		return &files.Content{Source: source, Destination: destination, Type: kind, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.time, Owner: "root", Group: "root"}}
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "mayfly", Arch: arch, Platform: "linux", Version: r.version, VersionSchema: "none", Release: "1", Section: "database", Priority: "optional", MTime: r.time,
		Maintainer: "The Mayfly authors <packages@mayfly.invalid>", Vendor: "Mayfly", Homepage: "https://github.com/mayflydb/mayfly", License: "Apache-2.0",
		Description: "document database for data that expires\nMayfly speaks MongoDB's wire protocol, and Cosmos DB's REST protocol.",
		Overridables: nfpm.Overridables{
			Contents: files.Contents{
				content(r.binary[arch], "/usr/bin/mayfly", files.TypeFile, 0o755),
				content(file("mayfly.conf"), "/etc/mayfly.conf", files.TypeConfigNoReplace, 0o644),
				content(file("mayfly.service"), "/usr/lib/systemd/system/mayfly.service", files.TypeFile, 0o644),
				content(file("logrotate"), "/etc/logrotate.d/mayfly", files.TypeConfigNoReplace, 0o644),
				content(file("../../LICENSE"), "/usr/share/doc/mayfly/copyright", files.TypeFile, 0o644),
				content(r.notices(arch), "/usr/share/doc/mayfly/notices.txt", files.TypeFile, 0o644),
			},
			Scripts: nfpm.Scripts{PostInstall: file("postinstall"), PreRemove: file("preremove"), PostRemove: file("postremove")},
			Depends: map[string][]string{"deb": {"passwd"}, "rpm": {"shadow-utils"}}[format],
			RPM:     nfpm.RPM{BuildHost: "localhost", Group: "Applications/Databases", Summary: "document database for data that expires"},
		},
	})
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	f, err := os.Create(r.path("%s", packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	return errors.Join(packager.Package(info, f), f.Close())
}
