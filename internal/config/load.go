package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
)

// Input is where options come from.
type Input struct {
	Argv []string // the whole command line, for getCmdLineOpts
	Args []string // the part of it with the options
	Env  []string // "NAME=value", as os.Environ gives them
	// CheckParameter returns what is wrong with a server parameter, or nil. It comes
	// from the part of the server that knows the parameters. Nil accepts all.
	CheckParameter func(name, value string) error
	// Router means that the options are those of a router; what it cannot use is refused.
	Router bool
}

// What the command line may ask for instead of a server.
var (
	ErrHelp    = errors.New("help requested")
	ErrVersion = errors.New("version requested")
)

// given is an option as it was given.
type given struct {
	option *option
	name   string // of the parameter, where the option is setParameter; else ""
	text   string
	place  string
	line   int // of the file, 0 if it comes from elsewhere
}

type loader struct {
	in       Input
	options  Options
	errors   Errors
	explicit map[string]any // by path, what getCmdLineOpts shows
}

// Load reads all sources. The error is Errors, ErrHelp or ErrVersion.
func Load(in Input) (*Options, error) {
	l := &loader{in: in, explicit: map[string]any{}}
	l.options.argv = maskedArgv(in.Argv)
	l.options.Log.ComponentVerbosity = map[string]int{}
	for i := range table {
		p := &table[i]
		if p.text == "" {
			continue
		}
		if _, err := p.set(&l.options, p.text); err != nil {
			return nil, Errors{{Place: "default of " + p.path, Message: err.Error()}}
		}
	}
	flags, err := l.flags()
	if err != nil {
		return nil, err
	}
	flagErrors := l.errors
	l.errors = nil
	env := l.env()
	envErrors := l.errors
	l.errors = nil

	file := ""
	for _, g := range append(slices.Clone(env), flags...) {
		if g.option != nil && g.option.path == "config" {
			file = g.text
		}
	}
	l.apply(l.file(file))
	slices.SortStableFunc(l.errors, func(a, b Error) int { return cmp.Compare(a.line, b.line) })
	l.errors = append(l.errors, envErrors...)
	l.apply(env)
	l.errors = append(l.errors, flagErrors...)
	l.apply(flags)
	l.together()
	if len(l.errors) > 0 {
		return nil, l.errors
	}
	l.show()
	return &l.options, nil
}

// apply sets options in the order given, so that a later one wins.
func (l *loader) apply(all []given) {
	for _, g := range all {
		if g.name != "" {
			l.parameter(g)
			continue
		}
		if why := g.option.excluded(l.in.Router); why != "" {
			if g.line > 0 {
				why = g.option.path + ": " + why
			}
			l.errors = append(l.errors, Error{g.place, why, g.line})
			continue
		}
		v, err := g.option.set(&l.options, g.text)
		if err != nil {
			if g.line > 0 {
				err = fmt.Errorf("%s: %w", g.option.path, err)
			}
			l.errors = append(l.errors, Error{g.place, err.Error(), g.line})
			continue
		}
		if g.option.secret {
			v = Masked
		}
		l.explicit[g.option.path] = v
	}
}

func (l *loader) parameter(g given) {
	if l.in.CheckParameter != nil {
		if err := l.in.CheckParameter(g.name, g.text); err != nil {
			l.errors = append(l.errors, Error{g.place, err.Error(), g.line})
			return
		}
	}
	l.options.SetParameters = append(l.options.SetParameters, Parameter{g.name, g.text, g.place})
	l.explicit[parameterPrefix+g.name] = g.text
}

const parameterPrefix = "setParameter."

// together checks what no option can know alone, and fills in what depends on
// others.
func (l *loader) together() {
	_, ip := l.explicit["net.bindIp"]
	_, all := l.explicit["net.bindIpAll"]
	o := &l.options
	if ip && all && o.Net.BindIPAll {
		l.fail("net.bindIpAll", "cannot be set together with net.bindIp")
	}
	switch {
	case o.Log.Destination == "file" && o.Log.Path == "":
		l.fail("systemLog.destination", "file needs systemLog.path")
	case o.Log.Path != "" && o.Log.Destination == "":
		o.Log.Destination = "file"
	}
	if slices.Contains(o.Net.Compressors, "disabled") {
		o.Net.Compressors = nil
	}
	l.audit()
	l.cosmosKey()
	l.tls()
	l.memberKey()
	l.masterKey()
	l.admin()
	l.console()
	l.telemetry()
	l.replication()
	l.role()
	if l.in.Router {
		l.router()
	}
	if o.Storage.DBPath == "" {
		o.Storage.DBPath = defaultDBPath()
	}
}

// audit checks the options of the audit log.
func (l *loader) audit() {
	o := &l.options.Audit
	switch {
	case o.Destination == "":
		for _, path := range []string{"auditLog.path", "auditLog.format", "auditLog.filter"} {
			if _, given := l.explicit[path]; given {
				l.fail(path, "needs auditLog.destination")
			}
		}
	case (o.Destination == "file") != (o.Path != ""):
		l.fail("auditLog.path", "goes with auditLog.destination: file")
	case o.Format == "BSON" && o.Destination != "file":
		l.fail("auditLog.format", "BSON goes with auditLog.destination: file")
	}
}

// replication checks what stands for a replica set's member alone.
func (l *loader) replication() {
	o := &l.options.Replication
	_, given := l.explicit["storage.oplogMinRetentionHours"]
	o.OplogMinimumSoft = !given
	if o.Advertise != "" {
		if host, port, err := net.SplitHostPort(o.Advertise); err != nil || host == "" || port == "" || port == "0" {
			l.fail("replication.advertise", "%q is not host:port", o.Advertise)
		}
	}
	if o.Set != "" {
		return
	}
	for _, path := range []string{"replication.initiate", "replication.advertise", "replication.oplogSizeMB", "storage.oplogMinRetentionHours"} {
		if _, given := l.explicit[path]; given {
			l.fail(path, "needs replication.replSetName")
		}
	}
}

// role brings the words for a server's role in a cluster together: it is then a member
// of a set.
func (l *loader) role() {
	o := &l.options.Sharding
	for _, w := range []struct {
		is         bool
		path, role string
	}{{o.IsConfigServer, "sharding.configsvr", ConfigServer}, {o.IsShardServer, "sharding.shardsvr", ShardServer}} {
		switch {
		case !w.is:
		case o.Role == "" || o.Role == w.role:
			o.Role = w.role
		default:
			l.fail(w.path, "cannot be set together with the role %s", o.Role)
		}
	}
	if o.Role != "" && l.options.Replication.Set == "" {
		l.fail("sharding.clusterRole", "needs replication.replSetName")
	}
	if l.options.Sharding.Role != "" && l.options.Cosmos.Enabled {
		l.fail("cosmos.enabled", "a member of a cluster answers through routers: start them with --cosmos")
	}
	if _, given := l.explicit["net.port"]; !given && o.Role != "" {
		l.options.Net.Port = map[string]int{ShardServer: shardPort, ConfigServer: configPort}[o.Role]
	}
}

// The ports of servers of a cluster if none is given, as mongod has them.
const (
	shardPort  = 27018
	configPort = 27019
)

func defaultDBPath() string {
	const mongods, ours = "/data/db", "data"
	if info, err := os.Stat(mongods); err == nil && info.IsDir() {
		return mongods
	}
	return ours
}

func (l *loader) fail(place, format string, args ...any) {
	l.errors = append(l.errors, Error{Place: place, Message: fmt.Sprintf(format, args...)})
}

// show brings what was set explicitly into the order of the table.
func (l *loader) show() {
	rank := map[string]int{}
	for i := range table {
		rank[table[i].path] = i + 1
	}
	for path, v := range l.explicit {
		l.options.explicit = append(l.options.explicit, Setting{path, v})
	}
	place := func(s Setting) int {
		if r := rank[s.Path]; r > 0 {
			return r
		}
		if strings.HasPrefix(s.Path, parameterPrefix) {
			return rank["setParameter"]
		}
		return rank["systemLog.verbosity"]
	}
	slices.SortFunc(l.options.explicit, func(a, b Setting) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Path, b.Path))
	})
}
