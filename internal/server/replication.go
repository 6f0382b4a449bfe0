package server

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/cosmos"
	"github.com/mayflydb/mayfly/internal/repl"
	"github.com/mayflydb/mayfly/internal/storage"
)

const (
	// handoverTime is how long a primary that shuts down waits for another member to
	// take over, and handoverPeriod how long it does not stand for election afterwards.
	handoverTime   = 5 * time.Second
	handoverPeriod = 10 * time.Second
)

// data are the collections that a server has, alone or as a member of a replica set.
type data struct {
	catalog *catalog.Catalog
	// writable returns nil if the server accepts writes, else the error for clients.
	writable func() error
	member   *repl.Member // nil on a standalone
	close    func() error
	// quiesce stops the background work on the data before a snapshot replaces them, and
	// returns a function that restarts it. It is set before the server's components
	// start.
	quiesce func() (resume func())
}

// unready is App's Unready: a member is ready, too, that belongs to no set yet, as a set is made of such.
func (d *data) unready() func() string {
	if d.member == nil {
		return nil
	}
	return func() string {
		switch state := d.member.State().Member; state {
		case repl.StateStartup, repl.StatePrimary, repl.StateSecondary:
			return ""
		default:
			return state.String()
		}
	}
}

// openData opens what the server has.
func (s *Server) openData() (*data, error) {
	o := catalog.Options{Clock: s.Clock, Memory: s.memory, Log: s.log.Logger("STORAGE").With("ctx", "initandlisten")}
	d := &data{quiesce: func() func() { return func() {} }}
	var err error
	if s.Options.Replication.Set == "" {
		err = s.openStandalone(d, o)
	} else {
		err = s.openMember(d, o)
	}
	if err != nil {
		return nil, err
	}
	// Only now the directory is locked.
	if err := s.tidy(); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// openStandalone opens the data of a standalone. The data of a replica set's member is
// read-only: writes would be missing in the set's log.
func (s *Server) openStandalone(d *data, o catalog.Options) error {
	place, err := storage.Place(s.FS, s.Options.Storage.DBPath)
	if err != nil {
		return err
	}
	engine, err := s.openEngine(place)
	if err != nil {
		return err
	}
	c, err := repl.Stored(engine)
	var committer repl.Committer = repl.Local{}
	if c != nil {
		committer = repl.Detached{Set: c.Set}
	}
	if err == nil {
		o.Committer = committer
		d.catalog, err = catalog.Open(engine, o)
	}
	if err != nil {
		return errors.Join(err, engine.Close())
	}
	d.writable = committer.Writable
	d.close = func() error { return errors.Join(d.catalog.Close(), engine.Close()) }
	return nil
}

// openMember opens the data of a member of a replica set.
func (s *Server) openMember(d *data, o catalog.Options) (err error) {
	r := s.Options.Replication
	network := repl.NetworkOptions{Host: s.advertised(), Dial: s.Network.Dial, Logger: s.log.Logger("REPL").With("ctx", "replication")}
	s.peerNetwork(&network)
	disk := diskWatch{server: s}
	d.member, err = repl.OpenMember(repl.MemberOptions{
		Set: r.Set, FS: s.FS, Wall: s.Clock.Now, Dir: s.Options.Storage.DBPath, Open: disk.open, Catalog: o,
		Network: network,
		Window:  repl.Window{Bytes: uint64(r.OplogSizeMB) << 20, Retention: r.OplogRetention(), Soft: r.OplogMinimumSoft},
		Quiesce: func() func() { return d.quiesce() }, Log: s.log.Logger("REPL").With("ctx", "replication"), Fatal: s.memberFailed,
	})
	if err != nil {
		return err
	}
	disk.member.Store(d.member)
	if s.Options.Cosmos.Enabled {
		d.member.Retain(cosmos.MaxRetention) // until the endpoint has read what it needs
	}
	d.catalog, d.writable, d.close = d.member.Catalog(), d.member.Writable, d.member.Stop
	return nil
}

// advertised returns the host:port at which clients and other members reach this server,
// as far as known.
func (s *Server) advertised() string {
	if a := s.Options.Replication.Advertise; a != "" {
		return a
	}
	port := strconv.Itoa(s.port)
	hosts, _ := split(s.Options.Net)
	i := slices.IndexFunc(hosts, func(h string) bool { return h != "*" && h != "0.0.0.0" && h != "::" })
	if i < 0 {
		name, err := os.Hostname()
		if err != nil {
			name = "localhost"
		}
		return net.JoinHostPort(strings.ToLower(name), port)
	}
	return net.JoinHostPort(hosts[i], port)
}

// memberFailed exits the process: a committed entry cannot be applied here, or the disk hangs.
func (s *Server) memberFailed(err error) {
	s.control.Log(s.life, LevelFatal, "The member of the replica set cannot continue", "id", logMemberFailed, "error", err)
	s.exitNow(config.ExitAbrupt)
}

// registerMember registers the parameters of a member of a set; m is nil on a standalone, which
// takes them as well.
func registerMember(p *command.Params, m *repl.Member) {
	registerHistory(p, m)
	registerSyncRate(p, m)
	registerStreams(p, m)
	registerClockDrift(p, m)
}

// registerHistory registers the parameter for how long snapshots that were read at a
// cluster time stay readable. A standalone keeps none.
func registerHistory(p *command.Params, m *repl.Member) {
	var seconds *command.IntParam
	seconds = p.Int(command.IntSpec{Name: "minSnapshotHistoryWindowInSeconds", Default: int64(repl.DefaultHistory / time.Second), HasMin: true, OnChange: func() {
		if m != nil {
			m.KeptStates().SetHistory(time.Duration(seconds.Load()) * time.Second)
		}
	}})
}

// registerStreams registers how many change streams may be open on a member, and how often in a
// second they are answered. mongod has no such bounds.
func registerStreams(p *command.Params, m *repl.Member) {
	var most, answers *command.IntParam
	most = p.Int(command.IntSpec{Name: "maxOpenChangeStreams", Default: repl.DefaultMaxStreams, HasMin: true, OnChange: func() {
		if m != nil {
			m.SetMaxStreams(most.Load())
		}
	}})
	answers = p.Int(command.IntSpec{Name: "changeStreamAnswersPerSecond", Default: repl.DefaultAnswers(), Min: 1, HasMin: true, OnChange: func() {
		if m != nil {
			m.SetAnswers(answers.Load())
		}
	}})
}

// registerSyncRate registers how many megabytes of data a member sends to others in a
// second, at most.
func registerSyncRate(p *command.Params, m *repl.Member) {
	var rate *command.IntParam
	rate = p.Int(command.IntSpec{Name: "initialSyncMaxMBPerSecond", HasMin: true, HasMax: true, Max: maxSyncRate, OnChange: func() {
		if m != nil {
			m.SetSnapshotRate(rate.Load() << 20)
		}
	}})
}

// registerClockDrift registers how many seconds a cluster time that a client or another
// member has sent may be ahead of this member's clock.
func registerClockDrift(p *command.Params, m *repl.Member) {
	var seconds *command.IntParam
	seconds = p.Int(command.IntSpec{Name: "maxAcceptableLogicalClockDriftSecs", Default: int64(repl.DefaultMaxDrift / time.Second), HasMin: true, Min: 1,
		HasMax: true, Max: maxClockDrift, Long: true, Startup: true, OnChange: func() {
			if m != nil {
				m.Clock().SetMaxDrift(time.Duration(seconds.Load()) * time.Second)
			}
		}})
}

// maxClockDrift is about the largest number of seconds in a cluster time.
const maxClockDrift = math.MaxInt32

// maxSyncRate is beyond the bandwidth of any network.
const maxSyncRate = 1 << 20

// replication accepts connections of other members, and initiates the set if the options
// say so. A standalone has no such component.
func (s *Server) replication(d *data) []Component {
	m := d.member
	if m == nil {
		return nil
	}
	s.peers = newHandoff(&net.TCPAddr{Port: s.port})
	var running sync.WaitGroup
	return []Component{{
		Name: "replication",
		Start: func(ctx context.Context) error {
			running.Go(func() {
				if err := m.ServePeers(s.peers); err != nil && !errors.Is(err, net.ErrClosed) {
					s.network.Error("Stopped serving other members", "id", logPeers, "error", err)
				}
			})
			if s.Options.Replication.Initiate && m.State().Config == nil {
				return m.Initiate(ctx, nil)
			}
			return nil
		},
		Yield: func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, handoverTime)
			defer cancel()
			if m.Writable() != nil || len(m.State().Config.Members) == 1 {
				return
			}
			if err := m.StepDown(ctx, handoverPeriod, handoverTime, false); err != nil {
				s.control.Info("No other member took over", "id", logNotHandedOver, "error", err)
			}
		},
		Stop: func(context.Context) error {
			err := s.peers.Close()
			running.Wait()
			return err
		},
	}}
}
