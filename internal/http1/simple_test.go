package http1

import (
	"bufio"
	"bytes"
	"maps"
	"net/http"
	"slices"
	"testing"
)

// FuzzSimple holds the plain parser against net/http's: what it takes, that one
// takes for the same.
func FuzzSimple(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /dbs/d/colls/c/docs?x=%20 HTTP/1.1\r\nHost: localhost:8081\r\nx-ms-date:  Mon, 02 Jan 2006 15:04:05 GMT \r\nContent-Length: 17\r\nConnection: keep-alive\r\n\r\n",
		"GET //dbs/a%2Fb/ HTTP/1.1\r\nHost: [::1]:8081\r\nAccept: */*\r\nUser-Agent: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nA : b\r\n\r\n",
		"GET / HTTP/1.1\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nPragma: no-cache\r\n\r\n",
		"GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		end := bytes.Index(head, headerEnd)
		if end < 0 {
			return
		}
		head = head[:end+len(headerEnd)]
		var p simpleReader
		var mine http.Request
		if !p.read(head, &mine) {
			return
		}
		theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
		if err != nil {
			t.Fatalf("%q: taken, but net/http says %v", head, err)
		}
		if mine.Method != theirs.Method || mine.URL.String() != theirs.URL.String() || mine.Host != theirs.Host || mine.Close != theirs.Close ||
			mine.ContentLength != theirs.ContentLength || mine.RequestURI != theirs.RequestURI {
			t.Fatalf("%q:\n%+v\n%+v", head, mine, theirs)
		}
		if !maps.EqualFunc(mine.Header, theirs.Header, func(a, b []string) bool { return slices.Equal(a, b) }) {
			t.Fatalf("%q:\n%v\n%v", head, mine.Header, theirs.Header)
		}
	})
}

func BenchmarkSimple(b *testing.B) {
	head := []byte("POST /dbs/bench/colls/items/docs HTTP/1.1\r\nHost: 127.0.0.1:8081\r\nUser-Agent: azsdk-go-azcosmos/v1.4.2\r\nContent-Length: 250\r\n" +
		"Authorization: type%3dmaster%26ver%3d1.0%26sig%3dabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrs%3d\r\nX-Ms-Date: Mon, 02 Jan 2006 15:04:05 GMT\r\n" +
		"X-Ms-Documentdb-Partitionkey: [\"p1\"]\r\nX-Ms-Version: 2020-11-05\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n")
	var p simpleReader
	var r http.Request
	b.ReportAllocs()
	for b.Loop() {
		if !p.read(head, &r) {
			b.Fatal("it is plain")
		}
	}
}
