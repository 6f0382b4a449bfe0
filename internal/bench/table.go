package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// table prints rows as they come, aligned at the end.
type table struct {
	w                     *tabwriter.Writer
	hollow, pg, raw, wire bool
}

func newTable(out io.Writer, hollow, pg, raw, wire bool) *table {
	t := &table{w: tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight), hollow: hollow, pg: pg, raw: raw, wire: wire}
	cells := []string{"row", "clients", "ops/s", "p50", "p99", "cpu/op", "client"}
	if hollow {
		cells = append(cells, "hollow ops/s", "p50", "cpu/op", "client", "of it")
	}
	if pg {
		cells = append(cells, "pg ops/s", "p50", "p99", "cpu/op", "client", "ratio")
	}
	if raw {
		cells = append(cells, "pebble ops/s", "p50", "p99", "cpu/op")
	}
	if wire {
		cells = append(cells, "wire cpu/op")
	}
	if raw && wire {
		cells = append(cells, "cost")
	}
	t.line(cells)
	return t
}

func (t *table) line(cells []string) { fmt.Fprintln(t.w, strings.Join(cells, "\t")+"\t") }

// cells are the figures of one system: documents a second, and microseconds.
func (r *result) cells(documents int) []string {
	return []string{fmt.Sprintf("%.0f", r.perSecond()*float64(documents)), micros(r.p50), micros(r.p99), micros(r.cpu), micros(r.client)}
}

func micros(d time.Duration) string {
	us := float64(d) / float64(time.Microsecond)
	if us < 100 {
		return fmt.Sprintf("%.1f", us)
	}
	return fmt.Sprintf("%.0f", us)
}

// add prints a row: for each system operations a second (documents, where an
// insertMany has many), the median and the 99th percentile of their duration
// and the processor time per operation of the server and of its clients, in
// microseconds; of it is operations over those of a server that has every
// answer ready, ratio is operations over PostgreSQL's, cost is the server's
// processor time over that of Pebble and wire.
func (t *table) add(r row, clients int, m measured) {
	per := 1
	if r.name == "insertMany" {
		per = r.documents
	}
	cells := append([]string{r.name, fmt.Sprint(clients)}, m.server.cells(per)...)
	if t.hollow {
		h := m.hollow.cells(per)
		cells = append(cells, h[0], h[1], h[3], h[4], fmt.Sprintf("%.2f", m.server.perSecond()/m.hollow.perSecond()))
	}
	if t.pg {
		cells = append(append(cells, m.pg.cells(per)...), fmt.Sprintf("%.2f", m.server.perSecond()/m.pg.perSecond()))
	}
	if t.raw {
		// It runs in the client's process.
		cells = append(cells, m.raw.cells(per)[:4]...)
	}
	if t.wire {
		cells = append(cells, micros(m.wire.cpu))
	}
	if t.raw && t.wire {
		cells = append(cells, fmt.Sprintf("%.2f", float64(m.server.cpu)/float64(m.raw.cpu+m.wire.cpu)))
	}
	t.line(cells)
}

func (t *table) flush() error { return t.w.Flush() }
