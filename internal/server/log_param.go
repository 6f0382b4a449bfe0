package server

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// registerParams adds the parameters of the log: logLevel,
// logComponentVerbosity and quiet.
func (l *Log) registerParams(p *command.Params) {
	p.Register(&command.Param{
		Name: "logLevel", AtStartup: true, AtRuntime: true,
		Get:  func() bson.Value { return bson.Int32(int32(l.Verbosity.Get(""))) },
		Text: func(text string) (bson.Value, error) { return bson.ParseJSONValue(text) },
		Check: func(v bson.Value) (func(), error) {
			n, ok := wholeNumber(v)
			if !ok || n < 0 {
				return nil, mongoerr.New(mongoerr.BadValue, "Invalid value for logLevel: %s", v)
			}
			return func() { l.Verbosity.Set("", int(n)) }, nil
		},
	})
	p.Register(&command.Param{
		Name: "logComponentVerbosity", AtStartup: true, AtRuntime: true,
		Get:   func() bson.Value { return bson.Document(l.Verbosity.Doc()) },
		Text:  func(text string) (bson.Value, error) { return bson.ParseJSONValue(text) },
		Check: l.Verbosity.Check,
	})
	p.Register(&command.Param{
		Name: "quiet", AtStartup: true, AtRuntime: true,
		Get:   func() bson.Value { return bson.Bool(l.Quiet()) },
		Text:  func(text string) (bson.Value, error) { return bson.ParseJSONValue(text) },
		Check: func(v bson.Value) (func(), error) { return func() { l.quiet.Store(v.Truthy()) }, nil },
	})
}

// wholeNumber reads a truncated number of any type, or a bool, if it fits an int.
func wholeNumber(v bson.Value) (int32, bool) {
	if v.Type == bson.TypeBool {
		if v.Bool() {
			return 1, true
		}
		return 0, true
	}
	if !v.IsNumber() {
		return 0, false
	}
	n, ok := bson.TruncateToInt64(v)
	return int32(n), ok && n == int64(int32(n))
}
