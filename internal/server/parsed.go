package server

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/config"
)

// parsedOptions returns the document parsed of getCmdLineOpts: the options that were
// set, nested by their paths.
func parsedOptions(o *config.Options) bson.Doc {
	b := new(bson.Builder)
	var open []string
	for _, s := range o.Explicit() {
		path := strings.Split(s.Path, ".")
		dirs := path[:len(path)-1]
		same := 0
		for same < len(open) && same < len(dirs) && open[same] == dirs[same] {
			same++
		}
		for range open[same:] {
			b.Close()
		}
		for _, dir := range dirs[same:] {
			b.OpenDoc(dir)
		}
		open = dirs
		appendSetting(b, path[len(path)-1], s.Value)
	}
	return b.Finish()
}

func appendSetting(b *bson.Builder, name string, value any) {
	switch v := value.(type) {
	case string:
		b.String(name, v)
	case bool:
		b.Bool(name, v)
	case int:
		b.Int(name, int64(v))
	case float64:
		b.Double(name, v)
	}
}
