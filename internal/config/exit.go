package config

// The exit codes of the process; see the package comment.
const (
	ExitClean      = 0
	ExitDamaged    = 1
	ExitBadOptions = 2
	ExitAbrupt     = 14
	ExitNetError   = 48
	ExitUncaught   = 100
)
