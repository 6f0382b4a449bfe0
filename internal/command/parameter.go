package command

import "sync/atomic"

// Params is the registry of server parameters (getParameter, setParameter and
// the option --setParameter). Each is registered once, at start, by the part
// that honours it, which keeps the returned handle and reads it whenever it
// needs the value:
//
//	sleep := params.Int("ttlMonitorSleepSecs", 60, command.Above(0), command.OnChange(wake))
//	… time.Duration(sleep.Load()) * time.Second
type Params struct{}

// IntParam is a parameter that is a whole number.
type IntParam struct{ v atomic.Int64 }

// Load returns the value.
func (p *IntParam) Load() int64 { return p.v.Load() }

// BoolParam is a parameter that is true or false.
type BoolParam struct{ v atomic.Bool }

// Load returns the value.
func (p *BoolParam) Load() bool { return p.v.Load() }
