package expire

import (
	"bytes"
	"os"
	"strconv"
)

// processorTicks returns the ticks of the machine's processors since it
// started, and the idle ones among them; both 0 if the system does not
// report them. (Linux: proc_stat(5).)
func processorTicks() (idle, all int64) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := bytes.Cut(data, []byte("\n"))
	fields := bytes.Fields(line)
	// user nice system idle iowait irq softirq steal; guests are part of user.
	if len(fields) < 9 || string(fields[0]) != "cpu" {
		return 0, 0
	}
	for i, f := range fields[1:9] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, 0
		}
		all += n
		if i == 3 || i == 4 {
			idle += n
		}
	}
	return idle, all
}
