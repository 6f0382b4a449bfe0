package process

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/mayflydb/mayfly/internal/bson"
)

const mebibyte = 1 << 20

// appendMemory writes serverStatus's section mem, in MiB.
func appendMemory(b *bson.Builder) {
	virtual, resident := memoryUse()
	b.Int32("bits", 64).Int("resident", resident/mebibyte).Int("virtual", virtual/mebibyte).Bool("supported", true)
}

// memoryUse returns the size of the process in bytes as reported by the system,
// otherwise the memory that the Go runtime has obtained.
func memoryUse() (virtual, resident int64) {
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(text)); len(f) >= 2 {
			page := int64(os.Getpagesize())
			v, _ := strconv.ParseInt(f[0], 10, 64)
			r, _ := strconv.ParseInt(f[1], 10, 64)
			return v * page, r * page
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys), int64(m.Sys - m.HeapReleased)
}

// appendExtraInfo writes serverStatus's section extra_info: the system's counters for
// the process.
func appendExtraInfo(b *bson.Builder) {
	b.String("note", "fields vary by platform")
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return
	}
	b.Int64("user_time_us", u.Utime.Nano()/1000).Int64("system_time_us", u.Stime.Nano()/1000).
		Int64("maximum_resident_set_kb", int64(u.Maxrss)).Int64("input_blocks", int64(u.Inblock)).
		Int64("output_blocks", int64(u.Oublock)).Int64("page_reclaims", int64(u.Minflt)).Int64("page_faults", int64(u.Majflt)).
		Int64("voluntary_context_switches", int64(u.Nvcsw)).Int64("involuntary_context_switches", int64(u.Nivcsw)).
		Int64("threads", int64(runtime.NumGoroutine()))
}

// openFileLimit returns the limit on open files.
func openFileLimit() (int64, bool) {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 0, false
	}
	return int64(r.Cur), true
}
