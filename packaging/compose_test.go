package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// TestCompose holds that the file for docker compose is valid, and that its commands make a set of
// three with a primary, also when they are run a second time: as processes, with ports of this
// machine in place of the containers' names.
func TestCompose(t *testing.T) {
	options, err := cli.NewProjectOptions([]string{"compose.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	binary, err := filepath.Abs(only(t, "mayfly-*-linux-"+runtime.GOARCH))
	if err != nil {
		t.Fatal(err)
	}
	var here []string // replacements
	ports := map[string]string{}
	for name, s := range project.Services {
		if s.Image != "mayflydb/mayfly:0.1.0" {
			t.Errorf("%s has the image %s", name, s.Image)
		}
		if s.Command[0] == "serve" {
			ports[name] = fmt.Sprint(freePort(t))
			here = append(here, name+":27017", "127.0.0.1:"+ports[name])
		}
	}
	command := func(s types.ServiceConfig) *exec.Cmd {
		args := slices.Clone(s.Command)
		for i := range args {
			args[i] = strings.NewReplacer(here...).Replace(args[i])
		}
		if args[0] == "serve" {
			args[slices.Index(args, "/data/db")] = t.TempDir()
			args[slices.Index(args, "--bind_ip_all")] = "--bind_ip=127.0.0.1"
			args = append(args, "--port", ports[s.Name])
		}
		return exec.CommandContext(t.Context(), binary, args...)
	}
	for name := range ports {
		server := command(project.Services[name])
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	}
	for range 2 {
		if out, err := command(project.Services["initiate"]).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		out, _ := exec.Command(binary, "run", "--uri", "mongodb://127.0.0.1:"+ports["m2"]+"/?directConnection=true", `{"hello": 1}`).CombinedOutput()
		if strings.Contains(string(out), `"primary":`) && strings.Count(string(out), "127.0.0.1:") >= 4 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the set has no primary:\n%s", out)
		}
	}
}
