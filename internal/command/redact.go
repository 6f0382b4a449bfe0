package command

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
)

// shownInLogs are the fields of commands whose values are no client's data.
var shownInLogs = map[string]bool{
	"$db": true, "lsid": true, "txnNumber": true, "autocommit": true, "limit": true, "skip": true, "batchSize": true, "singleBatch": true,
	"ordered": true, "multi": true, "upsert": true, "maxTimeMS": true, "readConcern": true, "writeConcern": true, "$readPreference": true, "getMore": true,
}

// loggedCommand is ShownCommand as the log may have it: with redactClientLogData, without
// what clients have given but the names of collections and some numbers.
func (op *Op) loggedCommand() bson.Doc {
	d := op.ShownCommand()
	if !op.Dispatcher.RedactLogs.Load() {
		return d
	}
	var b bson.Builder
	first, hidden := true, false
	for name, v := range d.All() {
		names := first && op.statement == nil && (v.Type == bson.TypeString || v.IsNumber())
		first = false
		switch {
		case names || shownInLogs[name]:
			b.Value(name, v)
		case op.statement != nil || op.intent != nil || op.Command.Fields != nil && op.Command.Fields.has(name):
			b.String(name, redacted)
		default: // who knows what a client calls things
			hidden = true
		}
	}
	if hidden {
		b.String(redacted, redacted)
	}
	return b.Finish()
}

// loggedText is a message that may quote what clients have given.
func (d *Dispatcher) loggedText(text string) string {
	if d.RedactLogs.Load() {
		return redacted
	}
	return text
}

// loggedPlan is a plan without the fields of its indexes: "IXSCAN ###".
func (d *Dispatcher) loggedPlan(plan string) string {
	if !d.RedactLogs.Load() {
		return plan
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(plan, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString(redacted)
		depth := 1
		for i, c := range rest {
			if c == '{' {
				depth++
			} else if c == '}' {
				depth--
			}
			if depth == 0 {
				rest = rest[i+1:]
				break
			}
		}
		if depth > 0 {
			return b.String()
		}
		plan = rest
	}
}
