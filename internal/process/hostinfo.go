package process

import (
	"bufio"
	"context"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/mayflydb/mayfly/internal/command"
)

// hostInfo describes the machine and its operating system.
func (p *Process) hostInfo() *command.Command {
	return &command.Command{
		Name: "hostInfo", Fields: command.NewFields("hostInfo"), Run: p.runHostInfo,
		Help: "returns information about the daemon's host",
	}
}

func (p *Process) runHostInfo(_ context.Context, op *command.Op) error {
	m := readMachine()
	b := op.Reply.OpenDoc("system").Date("currentTime", op.Dispatcher.Wall.Now().UnixMilli()).String("hostname", p.Name()).
		Int32("cpuAddrSize", 64).Int64("memSizeMB", m.memory/mebibyte).Int64("memLimitMB", m.limit/mebibyte).
		Int32("numCores", m.cores).Int32("numCoresAvailableToProcess", int32(runtime.NumCPU())).
		Int32("numPhysicalCores", m.cores).Int32("numCpuSockets", m.sockets).String("cpuArch", arch()).
		Bool("numaEnabled", false).Int32("numNumaNodes", 1)
	b.Close()
	kind := map[string]string{"linux": "Linux", "darwin": "Darwin", "windows": "Windows"}[runtime.GOOS]
	b.OpenDoc("os").String("type", kind).String("name", m.osName).String("version", m.osVersion).Close()
	b.OpenDoc("extra").String("versionString", m.versionString).String("libcVersion", "").String("versionSignature", "").
		String("kernelVersion", m.kernel).String("cpuString", m.cpu).String("cpuFrequencyMHz", m.mhz).String("cpuFeatures", m.cpuFeatures).
		Int64("pageSize", int64(os.Getpagesize())).Int64("numPages", m.memory/int64(os.Getpagesize())).
		Int64("maxOpenFiles", m.openFiles).Close()
	return nil
}

// machine is what the operating system reports about the machine.
type machine struct {
	memory, limit, openFiles int64
	cores, sockets           int32
	osName, osVersion        string
	versionString, kernel    string
	cpu, mhz, cpuFeatures    string
}

func readMachine() machine {
	m := machine{cores: int32(runtime.NumCPU()), sockets: 1, openFiles: 1024}
	if kb, ok := strings.CutSuffix(fileValue("/proc/meminfo", "MemTotal:"), " kB"); ok {
		m.memory, _ = strconv.ParseInt(kb, 10, 64)
		m.memory <<= 10
	}
	if m.memory == 0 {
		m.memory, _ = memoryUse()
	}
	m.limit = memoryLimit(m.memory)
	m.osName = strings.Trim(fileValue("/etc/os-release", "PRETTY_NAME="), `"`)
	m.osVersion = "Kernel " + firstLine("/proc/sys/kernel/osrelease")
	m.kernel = firstLine("/proc/sys/kernel/osrelease")
	m.versionString = firstLine("/proc/version")
	m.cpu = fileValue("/proc/cpuinfo", "model name\t:")
	m.mhz = fileValue("/proc/cpuinfo", "cpu MHz\t\t:")
	m.cpuFeatures = fileValue("/proc/cpuinfo", "flags\t\t:")
	if n, ok := openFileLimit(); ok {
		m.openFiles = n
	}
	return m
}

// memoryLimit is the least of the machine's memory and the limit of the control
// group that the process runs in.
func memoryLimit(memory int64) int64 {
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if n, err := strconv.ParseInt(firstLine(file), 10, 64); err == nil && n > 0 {
			return min(n, memory)
		}
	}
	return memory
}

// firstLine reads the first line of a file, "" if there is none.
func firstLine(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// fileValue finds the first line of a file that begins with key, and returns
// what follows.
func fileValue(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if v, ok := strings.CutPrefix(s.Text(), key); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}
