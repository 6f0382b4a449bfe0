package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/mayflydb/mayfly/"

// layers lists the packages under internal from the ground up: a package may
// import those of lower rows and those that stand before it in its own row.
var layers = [][]string{
	{"mongoerr", "invariant", "waits", "telemetry/telemetrytest", "telemetry", "memory", "seal", "pcre", "collation", "fts", "config", "certificate", "webserver", "objectstore", "objectstore/bucket"},
	{"bson", "bson/bsontest", "javascript", "geo", "geo/geotest", "wire", "wire/stream", "keystring"},
	{"query/sortkey", "query/expr", "query/match", "query/extsort", "query/querytest", "query/project", "query/update", "query/pipeline", "query/nosql"},
	{"storage", "schema", "archive", "timeseries", "catalog/layout", "catalog/measurements", "catalog/retryable", "catalog/pending", "catalog", "catalog/replay"},
	{"query/plan", "query/exec/stage", "query/exec/keyrange", "query/exec/readahead", "query/exec/plancache", "query/exec/unpack", "query/exec"},
	{"oplog", "changestream", "repl"},
	{"auth", "client", "command", "audit"},
	{"shard", "account", "process", "access", "expire/forecast", "node", "expire", "backup", "doctor", "docfile", "importer", "accountimport"},
	{"cluster/step", "cluster/clustertest", "cluster/configsvr", "cluster/shardsvr"},
	{"router"},
	{"cosmos", "console", "server", "server/servertest", "bench", "testkit", "sim", "cluster/clustersim", "lint"},
}

// fences name what only some packages may import.
var fences = map[string][]string{
	"github.com/cockroachdb/pebble": {"storage", "bench"},
	"go.etcd.io/raft":               {"repl", "bench"},
}

// drivers are of other databases' clients, and of MongoDB's: only what measures
// and tests asks with them, so that they are not in the server.
var (
	drivers     = []string{"go.mongodb.org/mongo-driver", "github.com/jackc/pgx"}
	withDrivers = []string{"bench", "testkit"}
)

// maxFunction is the longest a function may be, in lines.
const maxFunction = 100

// file is one parsed source file.
type file struct {
	path string // from the root of the module
	pkg  string // path of its package under internal, or "" outside
	test bool
	ast  *ast.File
	fset *token.FileSet
}

func sources(t *testing.T) []file {
	t.Helper()
	root := "../.."
	var out []file
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (name == "node_modules" || name == "testdata" || name == "data" || name == "bin" || len(name) > 2 && name[0] == '.') {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		f := file{path: filepath.ToSlash(rel), test: strings.HasSuffix(name, "_test.go"), fset: token.NewFileSet()}
		if dir := filepath.ToSlash(filepath.Dir(rel)); strings.HasPrefix(dir, "internal/") {
			f.pkg = strings.TrimPrefix(dir, "internal/")
		}
		f.ast, err = parser.ParseFile(f.fset, path, nil, parser.ParseComments)
		out = append(out, f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatal("found no sources")
	}
	return out
}

// rank is a package's place in the table: its row, and its place in the row.
func rank(pkg string) (row, place int, ok bool) {
	for r, l := range layers {
		for p, name := range l {
			if name == pkg {
				return r, p, true
			}
		}
	}
	return 0, 0, false
}

func TestLayers(t *testing.T) {
	for _, f := range sources(t) {
		if f.pkg == "" {
			continue
		}
		row, place, ok := rank(f.pkg)
		if !ok {
			t.Errorf("%s: package %s has no place in the layers", f.path, f.pkg)
			continue
		}
		for _, spec := range f.ast.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			for prefix, allowed := range fences {
				if strings.HasPrefix(path, prefix) && !contains(allowed, f.pkg) {
					t.Errorf("%s: only %v may import %s", f.path, allowed, prefix)
				}
			}
			dep, internal := strings.CutPrefix(path, module+"internal/")
			if !internal || dep == f.pkg || f.test {
				continue
			}
			r, p, ok := rank(dep)
			if !ok || r > row || r == row && p > place {
				t.Errorf("%s: %s may not import %s", f.path, f.pkg, dep)
			}
		}
	}
}

func TestDrivers(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || strings.HasPrefix(f.path, "e2e/") {
			continue
		}
		for _, spec := range f.ast.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			for _, d := range drivers {
				if strings.HasPrefix(path, d) && !contains(withDrivers, f.pkg) {
					t.Errorf("%s: only %v may import %s", f.path, withDrivers, d)
				}
			}
			if dep, _ := strings.CutPrefix(path, module+"internal/"); strings.HasPrefix(f.path, "cmd/mayfly/") && contains(withDrivers, dep) {
				t.Errorf("%s: the server does not import %s", f.path, dep)
			}
		}
	}
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

func TestPackageComments(t *testing.T) {
	comments, where := map[string]string{}, map[string]string{}
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		dir := filepath.Dir(f.path)
		where[dir] = f.path
		if f.ast.Doc != nil {
			comments[dir] = f.ast.Doc.Text()
		}
	}
	for dir := range where {
		if strings.TrimSpace(comments[dir]) == "" {
			t.Errorf("%s has no package comment", dir)
		}
	}
}

func TestFunctionLength(t *testing.T) {
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			lines := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1
			if lines > maxFunction {
				t.Errorf("%s: %s has %d lines, more than %d", f.path, fn.Name.Name, lines, maxFunction)
			}
		}
	}
}
