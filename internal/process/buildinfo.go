package process

import (
	"cmp"
	"context"
	"runtime"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// buildInfo returns which version of MongoDB this server behaves as, and how it
// was built.
func (p *Process) buildInfo() *command.Command {
	return &command.Command{
		Name: "buildInfo", Aliases: []string{"buildinfo"}, Flags: command.NoAuth | command.APIv1 | command.Quiet,
		Fields: command.NewFields("buildInfo"), Help: "get version #, etc.\n{ buildinfo:1 }", Run: p.runBuildInfo,
	}
}

func (p *Process) runBuildInfo(_ context.Context, op *command.Op) error {
	b := op.Reply.String("version", Version)
	if op.Controlled() && op.Client.Principal() == nil { // as servers after 8.0 have it (versionOnlyIfPreAuth)
		appendVersion(b)
		return nil
	}
	b.String("gitVersion", GitVersion).OpenArray("modules").Close()
	b.String("allocator", "go").String("javascriptEngine", cmp.Or(p.JavaScriptEngine, "none")).String("sysInfo", "deprecated")
	appendVersion(b)
	b.OpenDoc("openssl").String("running", "disabled").String("compiled", "disabled").Close()
	b.OpenDoc("buildEnvironment").String("distmod", "").String("distarch", arch()).String("cc", "").String("ccflags", "").
		String("cxx", runtime.Version()).String("cxxflags", "").String("linkflags", "").String("target_arch", arch()).
		String("target_os", runtime.GOOS).String("cppdefines", "").Close()
	b.Int32("bits", 64).Bool("debug", false).Int32("maxBsonObjectSize", MaxBsonObjectSize)
	if p.Kind == Mongod {
		b.Strings("storageEngines", StorageEngine)
	}
	return nil
}

func appendVersion(b *bson.Builder) {
	b.OpenArray("versionArray")
	for i, v := range versionArray {
		b.Int32(bson.Index(i), v)
	}
	b.Close()
}

// StorageEngine is the name of the storage engine.
const StorageEngine = "mayfly"

// arch returns the processor's architecture by mongod's name.
func arch() string {
	switch runtime.GOARCH {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return runtime.GOARCH
}
