package shard

import (
	"fmt"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Chunk sizes, in MB, that config.settings may have.
const (
	minChunkMB     = 1
	maxChunkMB     = 1024
	defaultChunkMB = 128
)

// maxMBPerSecond is the largest bound of a move, in MB per second.
const maxMBPerSecond = 1 << 20

// Settings are the settings of the balancer, as stored in config.settings.
type Settings struct {
	Off       bool    // stopped, or mode "off"
	ChunkSize int64   // bytes
	MoveJumbo bool    // attemptToBalanceJumboChunks
	Window    *Window // activeWindow; nil: always
	NoMerge   bool    // automerge is off
	// BytesPerSecond is how much each move of the balancer copies at most, 0 for no bound. A
	// shard takes part in one move at a time.
	BytesPerSecond int64
}

// DefaultSettings are the settings of a cluster without any.
func DefaultSettings() Settings { return Settings{ChunkSize: defaultChunkMB << 20} }

// Window is a part of each day, in minutes since midnight. One that stops before
// it starts continues past midnight.
type Window struct{ Start, Stop int }

// Holds reports whether a minute of the day is in the window.
func (w Window) Holds(minute int) bool {
	if w.Start < w.Stop {
		return w.Start <= minute && minute < w.Stop
	}
	return minute >= w.Start || minute < w.Stop
}

// String is "HH:MM to HH:MM".
func (w Window) String() string {
	return fmt.Sprintf("%02d:%02d to %02d:%02d", w.Start/60, w.Start%60, w.Stop/60, w.Stop%60)
}

// Active reports whether the balancer works at a minute of the day, in the config
// servers' local time.
func (s *Settings) Active(minute int) bool {
	return !s.Off && (s.Window == nil || s.Window.Holds(minute))
}

// With applies one document of config.settings; those that are not about chunks change
// nothing. Errors: 2 for unknown fields and invalid values.
func (s Settings) With(doc bson.Doc) (Settings, error) {
	id := doc.Lookup("_id")
	if id.Type != bson.TypeString {
		return s, badSetting(doc, "_id")
	}
	for name, v := range doc.All() {
		if name == "_id" {
			continue
		}
		var ok bool
		switch id.Str() {
		case "chunksize":
			ok = name == "value" && s.chunkSize(v)
		case "balancer":
			ok = s.balancer(name, v)
		case "automerge":
			if ok = name == "enabled" && v.Type == bson.TypeBool; ok {
				s.NoMerge = !v.Bool()
			}
		default:
			return s, nil
		}
		if !ok {
			return s, badSetting(doc, name)
		}
	}
	return s, nil
}

func badSetting(doc bson.Doc, field string) error {
	return mongoerr.New(mongoerr.BadValue, "invalid field '%s' in a document of config.settings: %s", field, doc)
}

func (s *Settings) chunkSize(v bson.Value) bool {
	mb, ok := bson.ExactInt64(v)
	if ok = ok && mb >= minChunkMB && mb <= maxChunkMB; ok {
		s.ChunkSize = mb << 20
	}
	return ok
}

func (s *Settings) balancer(name string, v bson.Value) (ok bool) {
	boolean := v.Type == bson.TypeBool
	switch name {
	case "stopped":
		s.Off = s.Off || boolean && v.Bool()
		return boolean
	case "mode":
		if v.Type != bson.TypeString || v.Str() != "full" && v.Str() != "off" {
			return false
		}
		s.Off = s.Off || v.Str() == "off"
		return true
	case "activeWindow":
		s.Window, ok = parseWindow(v)
		return ok
	case "maxMBPerSecond":
		var mb int64
		mb, ok = bson.ExactInt64(v)
		if ok = ok && mb >= 0 && mb <= maxMBPerSecond; ok {
			s.BytesPerSecond = mb << 20
		}
		return ok
	case "_secondaryThrottle":
		return boolean // each batch of a move is committed by a majority
	case "_waitForDelete":
		return boolean && !v.Bool() // a moved range is hidden at once, and removed later
	case "attemptToBalanceJumboChunks":
		s.MoveJumbo = boolean && v.Bool()
		return boolean
	}
	return false
}

func parseWindow(v bson.Value) (*Window, bool) {
	if v.Type != bson.TypeDocument || v.Doc().Len() != 2 {
		return nil, false
	}
	start, okStart := minuteOf(v.Doc().Lookup("start"))
	stop, okStop := minuteOf(v.Doc().Lookup("stop"))
	return &Window{start, stop}, okStart && okStop && start != stop
}

// minuteOf reads "HH:MM"; the hour may have one digit.
func minuteOf(v bson.Value) (int, bool) {
	if v.Type != bson.TypeString {
		return 0, false
	}
	s := v.Str()
	if len(s) == 4 {
		s = "0" + s
	}
	if len(s) != 5 || s[2] != ':' || !bson.AllDigits(s[:2]) || !bson.AllDigits(s[3:]) {
		return 0, false
	}
	hour, minute := int(s[0]-'0')*10+int(s[1]-'0'), int(s[3]-'0')*10+int(s[4]-'0')
	return hour*60 + minute, hour < 24 && minute < 60
}
