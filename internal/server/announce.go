package server

import (
	"os"
	"runtime"
	"runtime/debug"

	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/process"
)

// announce logs the startup lines and the startup warnings.
func (s *Server) announce() {
	host, _ := os.Hostname()
	o := s.Options
	s.control.Info("Mayfly starting", "id", logStarting, "pid", os.Getpid(), "port", o.Net.Port, "dbPath", o.Storage.DBPath,
		"architecture", "64-bit", "host", host)
	s.control.Info("Build Info", "id", logBuildInfo, "version", config.Version, "mongodbVersion", process.Version,
		"goVersion", runtime.Version(), "revision", revision(), "os", runtime.GOOS, "architecture", runtime.GOARCH)
	s.control.Info("Options set by command line", "id", logOptions, "options", parsedOptions(o))
	if o.Process.TimeZoneInfo != "" {
		s.control.Info("An option is not needed: time zones are in the binary", "id", logUnneeded, "option", "processManagement.timeZoneInfo")
	}
	if o.Storage.Engine != "mayfly" {
		s.control.Info("An option is taken to mean Mayfly's own engine", "id", logUnneeded, "option", "storage.engine", "value", o.Storage.Engine)
	}
	warn := func(id int, msg string) {
		s.control.Warn(msg, "id", id, "tags", []string{tagStartupWarning})
	}
	if !o.Security.Authorization {
		warn(logNoAccessControl, "Access control is not enabled for the database. Read and write access to data and configuration is unrestricted")
	}
	if os.Geteuid() == 0 {
		warn(logRunningAsRoot, "You are running this process as the root user, which is not recommended")
	}
	if !o.IsSet("net.bindIp") && !o.IsSet("net.bindIpAll") {
		warn(logBoundToLocalhost, "This server is bound to localhost. Remote systems will be unable to connect to this server. "+
			"Start the server with --bind_ip <address> to specify which IP addresses it should serve responses from, or with --bind_ip_all to bind to all interfaces. "+
			"If this behavior is desired, start the server with --bind_ip 127.0.0.1 to disable this warning")
	}
}

// revision returns the commit that the binary was built from, if known.
func revision() string {
	if config.Revision != "" {
		return config.Revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
