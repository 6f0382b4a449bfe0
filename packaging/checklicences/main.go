// Command checklicences holds the licences of what the server is made of, and of what builds and
// tests it, without a network: the modules that the server and its tests import by the texts in the
// module cache, packages of npm by what their lock files say. It runs in the root of the tree.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/mayflydb/mayfly/packaging/licence"
)

func main() {
	checked, err := checkModules()
	packages, unnamed, npm := checkPackages()
	if err = errors.Join(err, npm); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("licences: %d modules, %d packages of npm; %d packages of tests name none\n", checked, packages, unnamed)
}

// modules returns the directories of modules that packages import, by their paths.
func modules(args ...string) (map[string]string, error) {
	list := exec.Command("go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}"}, args...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	dirs := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if path, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			dirs[path] = dir
		}
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("go list %v names no modules", args)
	}
	return dirs, nil
}

// checkModules checks the modules of the server, which must be permissive, and those of its tests,
// which must not be refused.
func checkModules() (n int, err error) {
	shipped, err := modules("./cmd/mayfly")
	if err != nil {
		return 0, err
	}
	all, err := modules("-test", "./...")
	if err != nil {
		return 0, err
	}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		var e error
		if _, ships := shipped[path]; ships {
			_, e = licence.Shippable(all[path])
		} else {
			var files []licence.File
			files, e = licence.Files(all[path])
			for _, f := range files {
				if !allows(strings.Join(f.Licences, " AND "), false) {
					e = fmt.Errorf("%s is %v", f.Name, f.Licences)
				}
			}
		}
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", path, e))
		}
	}
	return len(all), err
}

// refused are in the names of licences that nothing may have which builds or tests the server.
var refused = []string{"GPL", "SSPL", "BUSL", "CC-BY-NC", "UNLICENSED"}

// checkPackages checks the packages of lock files. Those that the console ships must be permissive;
// the others, which only build and test, must not be refused.
func checkPackages() (n, unnamed int, err error) {
	out, err := exec.Command("git", "ls-files", "*package-lock.json").Output()
	if err != nil {
		return 0, 0, fmt.Errorf("git ls-files: %w", err)
	}
	for _, path := range strings.Fields(string(out)) {
		b, e := os.ReadFile(path)
		if e != nil {
			return 0, 0, e
		}
		var lock struct {
			Packages map[string]struct {
				Dev     bool
				License any // a string; others in old packages
			}
		}
		if e := json.Unmarshal(b, &lock); e != nil {
			return 0, 0, fmt.Errorf("%s: %w", path, e)
		}
		for name, p := range lock.Packages {
			if name == "" {
				continue
			}
			n++
			text, _ := p.License.(string)
			ships := strings.HasPrefix(path, "console/") && !p.Dev
			if text == "" && !ships {
				unnamed++
			} else if !allows(text, ships) {
				err = errors.Join(err, fmt.Errorf("%s: %s has the licence %q", path, name, text))
			}
		}
	}
	return n, unnamed, err
}

// allows evaluates what a package says of its licence: a name, or names with OR or AND.
func allows(text string, ships bool) bool {
	text = strings.Trim(text, "()")
	one := func(name string) bool {
		name = strings.Trim(name, "() ")
		if ships {
			return licence.Permissive(name)
		}
		return !slices.ContainsFunc(refused, func(r string) bool { return strings.Contains(strings.ToUpper(name), r) })
	}
	if strings.Contains(text, " OR ") {
		return slices.ContainsFunc(strings.Split(text, " OR "), one)
	}
	return !slices.ContainsFunc(strings.Split(text, " AND "), func(name string) bool { return !one(name) })
}
