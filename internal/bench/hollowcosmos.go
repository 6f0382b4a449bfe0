package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// startHollowCosmos starts a process that speaks as much of the Cosmos DB
// protocol as the rows need, and has every answer ready: what the SDK can have
// of any server on this machine.
func startHollowCosmos(ctx context.Context, dir, binary string) (*process, int, error) {
	port, err := freePort()
	if err != nil {
		return nil, 0, err
	}
	p, err := startProcess(exec.Command(binary, "-hollow-cosmos", strconv.Itoa(port)), dir, "hollowCosmos")
	if err != nil {
		return nil, 0, err
	}
	if err := p.listening(ctx, port); err != nil {
		return nil, 0, errors.Join(err, p.stop(syscall.SIGKILL))
	}
	return p, port, nil
}

// ServeHollowCosmos is the process: it answers on the port until it is killed.
func ServeHollowCosmos(port int) error {
	h := newHollowCosmos(port)
	return serveEach(port, h.answer)
}

// hollowCosmos has no items, but answers as if it had.
type hollowCosmos struct{ account, page, created, replaced []byte }

// The headers of the server's answers, and a resource's id and etag.
const (
	hollowHeaders = "Content-Type: application/json\r\nX-Ms-Activity-Id: 3e9d1c0a-5b7f-4000-8000-00000000002a\r\nX-Ms-Request-Charge: 1\r\n" +
		"X-Ms-Session-Token: 0:-1#10042\r\nLsn: 10042\r\nX-Ms-Alt-Content-Path: dbs/bench/colls/items\r\nX-Ms-Content-Path: DJB7AI1lZHo=\r\n" +
		"Date: Mon, 02 Jan 2006 15:04:05 GMT\r\n"
	hollowMetrics = "X-Ms-Documentdb-Query-Metrics: totalExecutionTimeInMs=0.10;queryCompileTimeInMs=0.00;queryLogicalPlanBuildTimeInMs=0.00;" +
		"queryPhysicalPlanBuildTimeInMs=0.00;queryOptimizationTimeInMs=0.00;VMExecutionTimeInMs=0.00;indexLookupTimeInMs=0.00;documentLoadTimeInMs=0.00;" +
		"systemFunctionExecuteTimeInMs=0.00;userFunctionExecuteTimeInMs=0.00;retrievedDocumentCount=20;retrievedDocumentSize=9876;outputDocumentCount=20;" +
		"outputDocumentSize=9876;writeOutputTimeInMs=0.00;indexUtilizationRatio=1.00\r\n"
	hollowETag   = `"6201c25e-0000-0100-0000-6ac9ff4d0000"`
	hollowSystem = `"_rid":"DJB7AI1lZHoBAAAAAAAAAA==","_self":"dbs/DJB7AA==/colls/DJB7AI1lZHo=/docs/DJB7AI1lZHoBAAAAAAAAAA==/",` +
		`"_etag":"\"6201c25e-0000-0100-0000-6ac9ff4d0000\"","_attachments":"attachments/","_ts":1791622989}`
)

func newHollowCosmos(port int) *hollowCosmos {
	location := fmt.Sprintf(`[{"name":"hollow","databaseAccountEndpoint":"http://%s/"}]`, local(port))
	h := &hollowCosmos{
		account: hollowAnswer("200 OK", "", []byte(`{"id":"hollow","writableLocations":`+location+`,"readableLocations":`+location+
			`,"enableMultipleWriteLocations":false,"userConsistencyPolicy":{"defaultConsistencyLevel":"Session"}}`)),
		created:  hollowAnswer("201 Created", "Etag: "+hollowETag+"\r\n", nil),
		replaced: hollowAnswer("200 OK", "Etag: "+hollowETag+"\r\n", nil),
	}
	items := make([]string, itemsPerPartition)
	for i := range items {
		items[i] = string(hollowItem(int64(i)))
	}
	body := fmt.Sprintf(`{"_rid":"DJB7AI1lZHo=","Documents":[%s],"_count":%d}`, strings.Join(items, ","), itemsPerPartition)
	h.page = hollowAnswer("200 OK", hollowMetrics+"X-Ms-Item-Count: "+strconv.Itoa(itemsPerPartition)+"\r\n", []byte(body))
	return h
}

func hollowAnswer(status, headers string, body []byte) []byte {
	head := "HTTP/1.1 " + status + "\r\n" + hollowHeaders + headers + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	return append([]byte(head), body...)
}

// hollowItem is the item of a number as the server gives it.
func hollowItem(id int64) []byte {
	it := newItem(id)
	return fmt.Appendf(nil, `{"id":"%s","pk":"%s","n":%d,"pad":"%s",%s`, it.ID, it.PK, it.N, it.Pad, hollowSystem)
}

func (h *hollowCosmos) answer(c net.Conn) error {
	r := textproto.NewReader(bufio.NewReader(c))
	for {
		line, err := r.ReadLine()
		if err != nil {
			return err
		}
		length, kept := 0, h.created
		for {
			header, err := r.ReadLineBytes()
			if err != nil {
				return err
			}
			if len(header) == 0 {
				break
			}
			name, value, _ := bytes.Cut(header, []byte(": "))
			switch {
			case bytes.EqualFold(name, []byte("content-length")):
				if length, err = strconv.Atoi(string(value)); err != nil {
					return err
				}
			case bytes.EqualFold(name, []byte("x-ms-documentdb-query")):
				kept = h.page
			case bytes.EqualFold(name, []byte("x-ms-documentdb-is-upsert")):
				kept = h.replaced
			}
		}
		if _, err := io.CopyN(io.Discard, r.R, int64(length)); err != nil {
			return err
		}
		if _, err := c.Write(h.reply(line, kept)); err != nil {
			return err
		}
	}
}

// reply answers a request line, a POST with what its headers asked for.
func (h *hollowCosmos) reply(line string, post []byte) []byte {
	method, rest, _ := strings.Cut(line, " ")
	target, _, _ := strings.Cut(rest, " ")
	if method == "POST" {
		return post
	}
	_, id, found := strings.Cut(target, "/docs/i")
	n, err := strconv.ParseInt(id, 10, 64)
	if !found || err != nil {
		return h.account
	}
	return hollowAnswer("200 OK", "Etag: "+hollowETag+"\r\n", hollowItem(n))
}
