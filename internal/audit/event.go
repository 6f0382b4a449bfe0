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
	own := c == nil || c.Internal || c.Remote == ""
	if own {
		id := bson.NewUUID()
		b.Binary("uuid", 4, id[:])
		b.OpenDoc("local").Bool("isSystemUser", true).Close().OpenDoc("remote").Bool("isSystemUser", true).Close()
	} else {
		id := c.UUID()
		b.Binary("uuid", 4, id[:])
		appendAddress(b, "local", c.Local)
		appendAddress(b, "remote", c.Remote)
	}
	b.OpenArray("users")
	var roles []auth.RoleName
	if p := principal(c); p != nil {
		b.OpenDoc("0")
		p.User.Name.Write(b)
		b.Close()
		roles = p.Roles
	}
	auth.WriteRoles(b.Close(), "roles", roles)
	if e.param == nil {
		b.OpenDoc("param").Close()
	} else {
		b.Doc("param", e.param)
	}
	return b.Int32("result", int32(e.result)).Finish()
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

// shown is an event as JSON has it: the time with its offset, and the id in the older form, as
// mongod writes them.
func shown(d bson.Doc) bson.Doc {
	var b bson.Builder
	for name, v := range d.All() {
		switch name {
		case "ts":
			b.OpenDoc(name).String("$date", time.UnixMilli(v.Int64()).UTC().Format("2006-01-02T15:04:05.000-07:00")).Close()
		case "uuid":
			_, id := v.Binary()
			b.OpenDoc(name).String("$binary", base64.StdEncoding.EncodeToString(id)).String("$type", "04").Close()
		default:
			b.Value(name, v)
		}
	}
	return b.Finish()
}
