package audit

import (
	"encoding/base64"
	"net"
	"strconv"
	"time"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// event is what is told: what kind of it, its details, and the code of the error, 0 for none.
type event struct {
	atype  string
	param  bson.Doc
	result mongoerr.Code
	at     time.Time
}

func newEvent(atype string, param bson.Doc, result mongoerr.Code) *event {
	return &event{atype: atype, param: param, result: result, at: time.Now()}
}

// kind is what the event has in common with those to whose counts its own may be added.
func (e *event) kind() string {
	var b bson.Builder
	for name, v := range e.param.All() {
		if v.Type != bson.TypeInt64 {
			b.Value(name, v)
		}
	}
	return e.atype + "\x00" + string(b.Finish())
}

// add adds the counts of an event of the same kind.
func (e *event) add(other bson.Doc) {
	var b bson.Builder
	for name, v := range e.param.All() {
		if v.Type == bson.TypeInt64 {
			b.Int64(name, v.Int64()+other.Lookup(name).Int64())
		} else {
			b.Value(name, v)
		}
	}
	e.param = b.Finish()
}

// document is the event as filters see it, and as it is written in BSON. c is who did it, nil
// for the server itself.
func (e *event) document(c *command.Client) bson.Doc {
	b := new(bson.Builder).String("atype", e.atype).Date("ts", e.at.UnixMilli())
	id := idOf(c)
	b.Binary("uuid", 4, id[:])
	writeSource(b, c, principal(c))
	if e.param == nil {
		b.OpenDoc("param").Close()
	} else {
		b.Doc("param", e.param)
	}
	return b.Int32("result", int32(e.result)).Finish()
}

// appendLine appends the event as a line of JSON, as mongod writes it: the time with its offset,
// and the id in the older form. It is made for each command where all are audited, so what the
// events of a client have in common is made once.
func (e *event) appendLine(dst []byte, c *command.Client) []byte {
	dst = append(append(append(dst, `{"atype":"`...), e.atype...), `","ts":{"$date":"`...)
	dst = e.at.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000-07:00")
	dst = append(append(dst, `"},`...), source(c)...)
	dst = append(dst, `,"param":`...)
	if e.param == nil {
		dst = append(dst, "{}"...)
	} else {
		dst = e.param.AppendJSON(dst, bson.RelaxedJSON)
	}
	return append(strconv.AppendInt(append(dst, `,"result":`...), int64(e.result), 10), "}\n"...)
}

// source is who did something, as fields in a line. A client keeps it, for as long as it has the
// same user.
func source(c *command.Client) []byte {
	p := principal(c)
	if c != nil {
		if s := c.Source.Load(); s != nil && s.Principal == p {
			return s.Text
		}
	}
	id := idOf(c)
	b := new(bson.Builder).OpenDoc("uuid").String("$binary", base64.StdEncoding.EncodeToString(id[:])).String("$type", "04").Close()
	writeSource(b, c, p)
	text := b.Finish().AppendJSON(nil, bson.RelaxedJSON)
	text = text[1 : len(text)-1]
	if !isServer(c) { // whose events have an id each
		c.Source.Store(&command.Source{Principal: p, Text: text})
	}
	return text
}

// isServer reports whether a client is the server itself.
func isServer(c *command.Client) bool { return c == nil || c.Internal || c.Remote == "" }

// idOf is the id of an event.
func idOf(c *command.Client) [16]byte {
	if isServer(c) {
		return bson.NewUUID()
	}
	return c.UUID()
}

// writeSource appends the ends of a client's connection, and its user with the roles.
func writeSource(b *bson.Builder, c *command.Client, p *auth.Principal) {
	if isServer(c) {
		b.OpenDoc("local").Bool("isSystemUser", true).Close().OpenDoc("remote").Bool("isSystemUser", true).Close()
	} else {
		appendAddress(b, "local", c.Local)
		appendAddress(b, "remote", c.Remote)
	}
	b.OpenArray("users")
	var roles []auth.RoleName
	if p != nil {
		b.OpenDoc("0")
		p.User.Name.Write(b)
		b.Close()
		roles = p.Roles
	}
	auth.WriteRoles(b.Close(), "roles", roles)
}

func principal(c *command.Client) *auth.Principal {
	if c == nil {
		return nil
	}
	return c.Principal()
}

// appendAddress appends one end of a connection: {ip, port}, or {unix} for a socket.
func appendAddress(b *bson.Builder, name, address string) {
	b.OpenDoc(name)
	host, port, err := net.SplitHostPort(address)
	if n, bad := strconv.Atoi(port); err == nil && bad == nil {
		b.String("ip", host).Int32("port", int32(n))
	} else {
		b.String("unix", address)
	}
	b.Close()
}
