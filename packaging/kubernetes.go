package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// kubernetes writes the Helm chart, and what it renders for who has no Helm: the manifests of a
// replica set and of a cluster.
func (r *release) kubernetes() error {
	c, err := loader.LoadDir(r.chart)
	if err != nil {
		return err
	}
	if err := r.archiveChart(c); err != nil {
		return err
	}
	for name, values := range map[string]map[string]any{"set": {}, "cluster": {"cluster": map[string]any{"enabled": true}}} {
		text, err := render(c, values)
		if err != nil {
			return err
		}
		if err := os.WriteFile(r.path("mayfly-%s.%s.yaml", r.version, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// archiveChart writes the chart as helm package does, but with the time of the commit.
func (r *release) archiveChart(c *chart.Chart) error {
	f, err := os.Create(r.path("mayfly-%s.chart.tgz", r.version))
	if err != nil {
		return err
	}
	compressed := gzip.NewWriter(f)
	w := tar.NewWriter(compressed)
	for _, file := range c.Raw { // in the order of names
		if err := write(w, path.Join(c.Name(), file.Name), 0o644, r.time, file.Data); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(w.Close(), compressed.Close(), f.Close())
}

// render returns the objects of a chart for values, as YAML documents.
func render(c *chart.Chart, values map[string]any) (string, error) {
	options := chartutil.ReleaseOptions{Name: c.Name(), Namespace: "default", IsInstall: true, Revision: 1}
	all, err := chartutil.ToRenderValues(c, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Engine{Strict: true}.Render(c, all)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if text := strings.TrimSpace(files[name]); strings.HasSuffix(name, ".yaml") && text != "" {
			fmt.Fprintf(&b, "---\n%s\n", text)
		}
	}
	return b.String(), nil
}
