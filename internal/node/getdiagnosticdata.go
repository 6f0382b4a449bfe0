package node

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// getDiagnosticData answers with what mongod's full-time diagnostic data capture
// samples: data.serverStatus and data.systemMetrics, each with the time when it
// began and ended; of a member of a replica set data.replSetGetStatus, too. Exporters of
// metrics ask for it.
func (n *Node) getDiagnosticData() *command.Command {
	return &command.Command{
		Name: "getDiagnosticData", Flags: command.AdminOnly | command.Quiet, Help: "get latest diagnostic data collection snapshot",
		Run: n.runGetDiagnosticData,
	}
}

func (n *Node) runGetDiagnosticData(ctx context.Context, op *command.Op) error {
	b := op.Reply
	now := func() int64 { return time.Now().UnixMilli() }
	b.OpenDoc("data").Date("start", now())
	b.OpenDoc("serverStatus").Date("start", now())
	n.Process.WriteStatus(ctx, op, b)
	b.Double("ok", 1).Date("end", now()).Close()
	if n.Dispatcher.Member != nil {
		set := new(bson.Builder).Date("start", now())
		if n.appendSetStatus(ctx, set) == nil {
			b.Doc("replSetGetStatus", set.Double("ok", 1).Date("end", now()).Finish())
		}
	}
	if cpu, memory := systemMetrics(); cpu != nil || memory != nil {
		b.OpenDoc("systemMetrics").Date("start", now()).Doc("cpu", cpu).Doc("memory", memory).Date("end", now()).Close()
	}
	b.Date("end", now()).Close()
	return nil
}

// ticksPerSecond is the unit of /proc/stat (USER_HZ), always 100 for programs on
// Linux.
const ticksPerSecond = 100

// systemMetrics are processor times in milliseconds, and memory in KiB, of the whole
// machine, as Linux reports them; nil elsewhere.
func systemMetrics() (cpu, memory bson.Doc) {
	if text, err := os.ReadFile("/proc/stat"); err == nil {
		line, _, _ := bytes.Cut(text, []byte("\n"))
		var b bson.Builder
		names := []string{"user_ms", "nice_ms", "system_ms", "idle_ms", "iowait_ms", "irq_ms", "softirq_ms", "steal_ms", "guest_ms", "guest_nice_ms"}
		for i, field := range strings.Fields(string(line))[1:] {
			if ticks, err := strconv.ParseInt(field, 10, 64); err == nil && i < len(names) {
				b.Int64(names[i], ticks*1000/ticksPerSecond)
			}
		}
		cpu = b.Finish()
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var b bson.Builder
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			name, rest, _ := strings.Cut(lines.Text(), ":")
			if v, found := strings.CutSuffix(strings.TrimSpace(rest), " kB"); found {
				if kb, err := strconv.ParseInt(v, 10, 64); err == nil {
					b.Int64(name+"_kb", kb)
				}
			}
		}
		memory = b.Finish()
	}
	return cpu, memory
}
