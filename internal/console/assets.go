package console

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

// built is what make console builds of console/.
//
//go:embed assets
var built embed.FS

// asset is a file that browsers get.
type asset struct {
	plain, zipped []byte
	kind          string
}

// assets are the files by the path of their URL.
type assets struct{ all map[string]asset }

// kinds are the media types of files; what is of no other kind is not served.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
}

// readAssets reads and compresses the files.
func readAssets() (*assets, error) {
	a := &assets{all: map[string]asset{}}
	err := fs.WalkDir(built, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || kinds[path.Ext(name)] == "" {
			return err
		}
		plain, err := built.ReadFile(name)
		if err != nil {
			return err
		}
		var zipped bytes.Buffer
		z, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
		if _, err := z.Write(plain); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		at := strings.TrimPrefix(name, "assets")
		if at == "/index.html" {
			at = "/"
		}
		a.all[at] = asset{plain: plain, zipped: zipped.Bytes(), kind: kinds[path.Ext(name)]}
		return nil
	})
	return a, err
}

// ServeHTTP answers with a file. The page is asked for again each time, since a newer server has
// another one; the names of all others change with what they have.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	one, ok := a.all[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", one.kind)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	if r.URL.Path == "/" {
		h.Set("Cache-Control", "no-cache")
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		_, _ = w.Write(one.zipped)
		return
	}
	_, _ = w.Write(one.plain)
}
