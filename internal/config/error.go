package config

import "strings"

// Error is one thing that is wrong with what a person asked for.
type Error struct {
	Place   string // "--port", "MAYFLY_NET_PORT", "/etc/mayfly.conf:3"
	Message string

	line int // in the file, 0 elsewhere
}

func (e Error) Error() string { return e.Place + ": " + e.Message }

// Errors is everything that is wrong, the file's first, the command line's last.
type Errors []Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}
