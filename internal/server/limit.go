package server

import (
	"log/slog"
	"syscall"
)

const (
	// filesForConnections of each filesShare open files may be connections; the
	// rest is for the engine and the log. mongod does the same.
	filesForConnections, filesShare = 4, 5
	// wantedFiles is how many open files a server should be allowed.
	wantedFiles = 64000
)

// maxConnections returns the bound on connections: the option, or less if the process
// may not open so many files.
func maxConnections(asked int, log *slog.Logger) int {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return asked
	}
	if files.Cur < wantedFiles {
		log.Warn("Soft rlimits for open file descriptors too low", "c", "CONTROL", "id", logFewFiles, "ctx", "initandlisten",
			"currentValue", files.Cur, "recommendedMinimum", wantedFiles, "tags", []string{tagStartupWarning})
	}
	return min(asked, int(min(files.Cur, 1<<30)/filesShare*filesForConnections))
}
