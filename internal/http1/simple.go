package http1

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
)

// maxNames bounds the names of headers that a connection keeps.
const maxNames = 64

// simpleReader reads the headers of requests that are plain: HTTP/1.1 with a
// path, each header once and on one line, a body of known length or none. It
// refuses everything else, for net/http's parser to judge.
type simpleReader struct {
	header http.Header
	values []string
	names  map[string]string // canonical, by name as sent
}

// read reads a header with the empty line at its end into r. false says that it
// is not plain, and r is not to be used.
func (p *simpleReader) read(head []byte, r *http.Request) bool {
	if p.header == nil {
		p.header, p.names = http.Header{}, map[string]string{}
	}
	clear(p.header)
	p.values = p.values[:0]
	r.Header, r.Host, r.ContentLength = p.header, "", 0
	text := string(head[:len(head)-len("\r\n\r\n")])
	line, rest, more := strings.Cut(text, "\r\n")
	if !p.requestLine(line, r) {
		return false
	}
	for offset := len(line) + 2; more; {
		line, rest, more = strings.Cut(rest, "\r\n")
		colon := strings.IndexByte(line, ':')
		if colon <= 0 {
			return false
		}
		name := p.name(head[offset : offset+colon])
		offset += len(line) + 2
		value := strings.Trim(line[colon+1:], " \t")
		if name == "" || !isFieldValue(value) || !p.take(name, value, r) {
			return false
		}
	}
	return r.Host != ""
}

// methods are the usual ones.
var methods = map[string]bool{"GET": true, "POST": true, "PUT": true, "PATCH": true, "DELETE": true, "HEAD": true}

func (p *simpleReader) requestLine(line string, r *http.Request) bool {
	method, rest, _ := strings.Cut(line, " ")
	target, proto, _ := strings.Cut(rest, " ")
	if !methods[method] || proto != "HTTP/1.1" || !strings.HasPrefix(target, "/") {
		return false
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return false
	}
	r.Method, r.RequestURI, r.URL = method, target, u
	r.Proto, r.ProtoMajor, r.ProtoMinor, r.Close = proto, 1, 1, false
	return true
}

// name is the canonical name of a header, "" for one that is not plain.
func (p *simpleReader) name(sent []byte) string {
	if n, known := p.names[string(sent)]; known {
		return n
	}
	if bytes.IndexFunc(sent, func(c rune) bool { return !isNameRune(c) }) >= 0 {
		return ""
	}
	n := textproto.CanonicalMIMEHeaderKey(string(sent))
	if len(p.names) < maxNames {
		p.names[string(sent)] = n
	}
	return n
}

func isNameRune(c rune) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// isFieldValue says whether a header's value is of printable ASCII.
func isFieldValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c > '~' {
			return false
		}
	}
	return true
}

// take takes a header over; false says that it is not plain.
func (p *simpleReader) take(name, value string, r *http.Request) bool {
	if p.header[name] != nil {
		return false
	}
	switch name {
	case "Host":
		if r.Host != "" || value == "" || !isHost(value) {
			return false
		}
		r.Host = value
		return true
	case "Content-Length":
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil || value[0] == '+' {
			return false
		}
		r.ContentLength = int64(n)
	case "Connection":
		if !strings.EqualFold(value, "keep-alive") {
			return false
		}
	case "Transfer-Encoding", "Trailer", "Upgrade", "Expect", "Te", "Pragma":
		return false
	}
	at := len(p.values)
	p.values = append(p.values, value)
	p.header[name] = p.values[at : at+1 : at+1]
	return true
}

// isHost says whether a Host is of letters, digits, dots and a port.
func isHost(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isNameRune(rune(c)) && c != '.' && c != ':' && c != '[' && c != ']' {
			return false
		}
	}
	return true
}
