package main

import (
	"debug/buildinfo"
	"errors"
	"os"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// listMaterials writes the bill of materials of a binary, in CycloneDX's form: the modules of
// which Go built it, as the binary itself says.
func (r *release) listMaterials(arch string) error {
	info, err := buildinfo.ReadFile(r.binary[arch])
	if err != nil {
		return err
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format("2006-01-02T15:04:05Z"), Component: &cdx.Component{
		Type: cdx.ComponentTypeApplication, BOMRef: "mayfly", Name: "mayfly", Version: r.version, PackageURL: "pkg:golang/" + info.Main.Path + "@" + r.version,
	}}
	all := []cdx.Component{{Type: cdx.ComponentTypeLibrary, BOMRef: "go", Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go"), PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		url := "pkg:golang/" + m.Path + "@" + m.Version
		all = append(all, cdx.Component{Type: cdx.ComponentTypeLibrary, BOMRef: url, Name: m.Path, Version: m.Version, PackageURL: url,
			Properties: &[]cdx.Property{{Name: "go.sum", Value: m.Sum}}})
	}
	bom.Components = &all
	f, err := os.Create(r.path("mayfly-%s-linux-%s.cdx.json", r.version, arch))
	if err != nil {
		return err
	}
	return errors.Join(cdx.NewBOMEncoder(f, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom), f.Close())
}
