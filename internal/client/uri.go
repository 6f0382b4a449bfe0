package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/certificate"
)

// URI is a connection string: mongodb://[user:password@]host[:port],…/[database][?options].
// (Manual: Connection Strings.)
type URI struct {
	Hosts []string
	Set   string // replicaSet; "" for any
	Read  Mode   // readPreference
	// Direct is directConnection: the one host, whatever it is.
	Direct  bool
	options Options
}

// ParseURI reads a connection string. absent is the read preference if it has none. An option
// that is not known is an error, as it may be one on which safety depends.
func ParseURI(text string, absent Mode) (*URI, error) {
	rest, ok := strings.CutPrefix(text, "mongodb://")
	if !ok {
		return nil, errors.New("a connection string begins with mongodb:// (mongodb+srv:// is not supported)")
	}
	rest, query, _ := strings.Cut(rest, "?")
	rest, database, _ := strings.Cut(rest, "/")
	u := &URI{Read: absent, options: Options{AppName: "mayfly"}}
	login := &Login{Source: database}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, password, _ := strings.Cut(rest[:at], ":")
		var err1, err2 error
		login.User, err1 = url.PathUnescape(user)
		login.Password, err2 = url.PathUnescape(password)
		if err := errors.Join(err1, err2); err != nil {
			return nil, errors.New("the user or the password of the connection string is not percent-encoded")
		}
		rest = rest[at+1:]
	}
	for h := range strings.SplitSeq(rest, ",") {
		if h == "" {
			return nil, errors.New("the connection string has no host")
		}
		if strings.LastIndexByte(h, ':') <= strings.LastIndexByte(h, ']') {
			h += ":27017"
		}
		u.Hosts = append(u.Hosts, h)
	}
	options, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("the options of the connection string: %w", err)
	}
	if err := u.take(options, login); err != nil {
		return nil, err
	}
	if login.User != "" || login.Mechanism == auth.X509 {
		u.options.Login = login
	}
	return u, nil
}

// take reads the options.
func (u *URI) take(options url.Values, login *Login) error {
	var files certificate.Files
	encrypted := false
	for name, values := range options {
		v := values[len(values)-1]
		is := v == "true"
		switch strings.ToLower(name) {
		case "replicaset":
			u.Set = v
		case "readpreference":
			mode, ok := modes[v]
			if !ok {
				return fmt.Errorf("readPreference=%s: no such read preference", v)
			}
			u.Read = mode
		case "directconnection":
			u.Direct = is
		case "authsource":
			login.Source = v
		case "authmechanism":
			login.Mechanism = v
		case "appname":
			u.options.AppName = v
		case "tls", "ssl":
			encrypted = encrypted || is
		case "tlscafile":
			files.Authorities, encrypted = v, true
		case "tlscertificatekeyfile":
			files.Certificate, encrypted = v, true
		case "tlscertificatekeyfilepassword":
			files.Password = v
		case "tlsallowinvalidhostnames":
			files.AnyName = is
		default:
			return fmt.Errorf("the option %s of a connection string is not supported here", name)
		}
	}
	if !encrypted {
		return nil
	}
	var err error
	u.options.TLS, err = files.Client()
	return err
}

// WithLogin returns the connection string with another user.
func (u *URI) WithLogin(l *Login) *URI {
	other := *u
	other.options.Login = l
	return &other
}

// Of returns the connection string for another set, with the same options.
func (u *URI) Of(set SetString, read Mode) *URI {
	other := *u
	other.Hosts, other.Set, other.Read, other.Direct = set.Hosts, set.Name, read, false
	return &other
}

// At returns the connection string for one server, whatever it is, with the same options.
func (u *URI) At(host string) *URI {
	other := *u
	other.Hosts, other.Set, other.Direct = []string{host}, "", true
	return &other
}

// Connect connects to a member of the set that the read preference allows, or to the server
// that is no member. Errors: those of the last server that was tried.
func (u *URI) Connect(ctx context.Context) (*Conn, string, error) {
	hosts := u.Hosts
	if !u.Direct {
		found, err := u.members(ctx)
		if err != nil {
			return nil, "", err
		}
		hosts = found
	}
	last := fmt.Errorf("no member of the set allows readPreference %s now", u.Read)
	for _, wanted := range u.wanted() {
		for _, h := range hosts {
			c, err := u.dial(ctx, h)
			if err != nil {
				last = fmt.Errorf("%s: %w", h, err)
				continue
			}
			if u.Direct || wanted(c.Hello()) {
				return c, h, nil
			}
			if err := c.Close(); err != nil {
				last = err
			}
		}
	}
	return nil, "", last
}

func (u *URI) dial(ctx context.Context, host string) (*Conn, error) {
	o := u.options
	o.Address = host
	return Connect(ctx, o)
}

// members returns the members of the set, as the first server tells that answers.
func (u *URI) members(ctx context.Context) ([]string, error) {
	var last error
	for _, h := range u.Hosts {
		c, err := u.dial(ctx, h)
		if err != nil {
			last = fmt.Errorf("%s: %w", h, err)
			continue
		}
		hello := c.Hello()
		name, hosts := hello.Lookup("setName"), hello.Lookup("hosts")
		if err := c.Close(); err != nil {
			return nil, err
		}
		if name.Type != bson.TypeString || hosts.Type != bson.TypeArray {
			if u.Set != "" {
				last = fmt.Errorf("%s is not a member of the replica set %s", h, u.Set)
				continue
			}
			return []string{h}, nil
		}
		if cmp.Or(u.Set, name.Str()) != name.Str() {
			return nil, fmt.Errorf("%s is a member of the replica set %s, not of %s", h, name.Str(), u.Set)
		}
		var all []string
		for v := range hosts.Doc().Values() {
			all = append(all, strings.Clone(v.Str()))
		}
		return all, nil
	}
	return nil, last
}

// wanted returns which servers the read preference allows, by their hello, the best first.
func (u *URI) wanted() []func(hello bson.Doc) bool {
	secondary := func(hello bson.Doc) bool { return hello.Lookup("secondary").Truthy() }
	primary := func(hello bson.Doc) bool { return hello.Lookup("isWritablePrimary").Truthy() }
	either := func(hello bson.Doc) bool { return primary(hello) || secondary(hello) }
	return map[Mode][]func(bson.Doc) bool{
		Primary: {primary}, PrimaryPreferred: {primary, secondary}, Secondary: {secondary}, SecondaryPreferred: {secondary, primary}, Nearest: {either},
	}[u.Read]
}
