package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/expire"
	"github.com/mayflydb/mayfly/internal/node"
	"github.com/mayflydb/mayfly/internal/process"
	"github.com/mayflydb/mayfly/internal/query/exec"
	"github.com/mayflydb/mayfly/internal/schema"
	"github.com/mayflydb/mayfly/internal/storage"
)

// spillDirectory, in the data directory, is where sorts spill.
const spillDirectory = "_tmp"

// Assemble opens a server, a standalone or the member of a replica set: data, executor,
// node, dispatcher and TTL monitor, in that order. It is an Open.
func Assemble(ctx context.Context, s *Server) (*App, error) {
	inMemory := s.FS != storage.OSFS()
	if err := s.unlock(); err != nil {
		return nil, err
	}
	if err := s.expireRestored(ctx); err != nil {
		return nil, err
	}
	data, err := s.openData()
	if err != nil {
		return nil, err
	}
	cat := data.catalog
	d := command.NewDispatcher(s.log.Logger("COMMAND"))
	d.Host, d.Memory, d.Member, d.Writable, d.Wall = s.host(), s.memory, data.member, data.writable, s.Clock
	s.auditWith(d)
	d.Tracer = s.tracer
	d.RedactLogs.Set(s.Options.Security.RedactLogs)
	x := &exec.Executor{Catalog: cat, Memory: s.memory, SpillDir: filepath.Join(s.Options.Storage.DBPath, spillDirectory)}
	n := &node.Node{
		Dispatcher: d, Params: d.Params, Log: s.log.Logger("COMMAND"), Catalog: cat, Exec: x,
		Keys: s.Options.Security.Keys, ByCertificate: s.byCertificate(), ToPrimary: s.toPrimary(), Process: s.dataProcess(cat), FS: s.FS, InMemory: inMemory,
	}
	if s.Options.Security.JavaScript {
		n.JavaScript = node.NewJavaScript(n.Log, s.memoryLimit(), s.memory)
	}
	n.ConfigServer = s.Options.Sharding.Role == config.ConfigServer
	n.Register(d.Registry)
	cluster, err := s.configServer(data, n)
	if err != nil {
		return nil, errors.Join(err, data.close())
	}
	shard, work, err := s.shardServer(n)
	if err != nil {
		return nil, errors.Join(err, data.close())
	}
	cluster = append(cluster, work...)
	if s.Options.Security.Authorization {
		n.EnableAccessControl()
	}
	expiry := expire.Options{Catalog: cat, Exec: x, Dispatcher: d, Log: s.log.Logger("INDEX").With("ctx", "TTLMonitor"), Guest: s.Guest}
	expiry.Archives, expiry.Owner = n.Archives, n.ArchiveOwner
	if shard != nil {
		expiry.Shares = shard.ShareExpiry
	}
	ttl := expire.New(expiry)
	d.RemoveDue = ttl.Pass
	n.Expiry, n.Forget = ttl.Report, ttl.Forget
	s.log.registerParams(d.Params)
	d.Status.Metric("ttl", func(b *bson.Builder) { b.Fields(ttl.TTL()) })
	d.Status.Metric("archive", func(b *bson.Builder) { b.Fields(ttl.Archived()) })
	d.Status.Metric("relayout", func(b *bson.Builder) { b.Fields(ttl.Relayouts()) })
	d.Status.Document("batchedDeletes", func(b *bson.Builder) { b.Fields(ttl.Stats.BatchedDeletes()) })
	trend := &diskTrend{server: s, data: data, ttl: ttl}
	d.Status.Document("mayfly", func(b *bson.Builder) { s.appendStatus(b, data.member, trend) })
	if o := s.Options.Security; o.Encryption {
		d.Status.Document("encryptionAtRest", func(b *bson.Builder) {
			b.Bool("encryptionEnabled", true).String("encryptionCipherMode", o.EncryptionCipher).String("encryptionKeyId", o.MasterKey().ID())
		})
	}
	registerMember(d.Params, data.member)
	p := s.Options.Profile
	d.Profiler.SetSlow(int64(p.SlowMS), p.SampleRate)
	d.Profiler.SetSettings("", command.ProfileSettings{Level: p.Level})
	if err := setParameters(d.Params, s.Options.SetParameters); err != nil {
		return nil, errors.Join(err, data.close())
	}
	data.quiesce = func() (resume func()) {
		ttl.Stop()
		d.Cursors.CloseAll()
		return ttl.Start
	}
	part := s.cosmosPart(cat, x, d)
	part.Member = data.member
	endpoint, err := s.cosmosComponents(part)
	if err != nil {
		return nil, errors.Join(err, data.close())
	}
	return &App{
		Dispatcher: d, Clients: &d.Clients, CheckPassword: n.CheckPassword, Unready: data.unready(), Collectors: append(s.appMetrics(d, data, ttl), trend.metrics()), Advance: d.Advance,
		Components: append([]Component{
			{Name: "data", Stop: func(context.Context) error { return data.close() }},
			{Name: "backups", Stop: func(context.Context) error { n.EndBackups(); return nil }},
			{Name: "cursors", Stop: func(context.Context) error { d.Cursors.CloseAll(); return nil }},
			background("housekeeping", d.Housekeep),
			background("follower", n.Follow),
			background("heap", s.keepHeap),
			background("disk trend", trend.run),
			s.ttlComponent(data, ttl),
		}, slices.Concat(cluster, endpoint, s.consoleComponents(d, n.CheckPassword), s.replication(data))...),
	}, nil
}

// unlock makes the data directory, and FS its file system: an encrypted one, where the options
// say so.
func (s *Server) unlock() (err error) {
	dir := s.Options.Storage.DBPath
	if err := prepareDirectory(dir, s.control); err != nil {
		return err
	}
	m := s.Options.Security.MasterKey()
	if m != nil {
		if err := storage.Encrypt(s.FS, dir, m); err != nil {
			return err
		}
	}
	s.FS, err = storage.Unlock(s.FS, dir, m)
	return err
}

// process returns the Process for the commands about it.
func (s *Server) process() process.Process {
	p := process.Process{
		StartTime: s.started,
		Argv:      s.Options.Argv(), Parsed: parsedOptions(s.Options), Host: s.host(), Log: s.log, RotateAudit: s.rotateAudit(),
		Connections: func() process.Connections {
			st := s.Stats()
			return process.Connections{Current: st.Current, Available: st.Available, Active: st.Active, Awaiting: st.Awaiting, Created: st.Created, Rejected: st.Rejected, TLS: st.TLS}
		},
		Traffic: func() process.Traffic {
			st := s.Stats()
			return process.Traffic{BytesIn: st.BytesIn, BytesOut: st.BytesOut, Requests: st.Requests}
		},
		Compressors: s.Options.Net.Compressors, Shutdown: s.shutDown, LocalhostOnly: !s.Options.Security.Authorization,
	}
	if s.certificates != nil {
		p.TLS = s.certificates
	}
	return p
}

// dataProcess is process for a server with data.
func (s *Server) dataProcess(cat *catalog.Catalog) process.Process {
	p := s.process()
	p.DBPath = s.Options.Storage.DBPath
	p.Flush = func(ctx context.Context) error { return cat.Engine().Sync(ctx) }
	p.PauseIdleCompaction = func(ctx context.Context) error { return cat.Engine().PauseIdleCompaction(ctx) }
	p.ResumeIdleCompaction = func() { cat.Engine().ResumeIdleCompaction() }
	return p
}

// background is a component that is one function running until its context
// ends.
func background(name string, run func(context.Context)) Component {
	var running sync.WaitGroup
	return Component{
		Name:  name,
		Start: func(ctx context.Context) error { running.Go(func() { run(ctx) }); return nil },
		Stop:  func(context.Context) error { running.Wait(); return nil },
	}
}

// openEngine opens the store in a directory.
func (s *Server) openEngine(dir string) (*storage.Engine, error) {
	return storage.Open(s.engineOptions(dir))
}

func (s *Server) engineOptions(dir string) storage.Options {
	o := s.Options.Storage
	return storage.Options{
		Dir: dir, FS: s.FS, CacheBytes: o.CacheBytes(), JournalInterval: o.JournalCommitInterval(), Log: s.log.Logger("STORAGE"),
		OnFatal: s.engineFailed,
	}
}

// tidy creates an empty spill directory, removes the copies of backup cursors that an earlier
// process had, and keeps two copies of the keys of an encrypted directory.
func (s *Server) tidy() error {
	if err := os.RemoveAll(filepath.Join(s.Options.Storage.DBPath, node.BackupDirectory)); err != nil {
		return fmt.Errorf("directory for backups: %w", err)
	}
	if err := storage.KeepKeys(s.FS, s.Options.Storage.DBPath); err != nil { // there is one of the two
		s.control.Warn("The keys of the data directory have no second copy", "id", logKeys, "error", err)
	}
	if err := emptyDirectory(filepath.Join(s.Options.Storage.DBPath, spillDirectory)); err != nil {
		return fmt.Errorf("directory for temporary files: %w", err)
	}
	return nil
}

// host returns the name and port at which clients reach this server.
func (s *Server) host() string {
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	return net.JoinHostPort(name, strconv.Itoa(s.port))
}

// ttlComponent runs the TTL monitor, unless the server is a standalone on the data of a
// replica set's member: then only the set's primary may expire documents. On a member
// it does nothing while another one is primary.
func (s *Server) ttlComponent(d *data, ttl *expire.Monitor) Component {
	return Component{
		Name: "TTLMonitor",
		Start: func(context.Context) error {
			c := d.catalog.Lookup(schema.Namespace{DB: "local", Coll: "system.replset"})
			if d.member == nil && c != nil && c.Count() > 0 {
				s.control.Warn("Document(s) exist in 'system.replset', but started without --replSet. Database contents may appear inconsistent "+
					"with the writes that were visible when this node was running as part of a replica set. Restart with --replSet unless "+
					"you are doing maintenance and no other clients are connected. The TTL collection monitor will not start because of "+
					"this. For more info see http://dochub.mongodb.org/core/ttlcollections",
					"id", logReplsetWithoutOption, "tags", []string{tagStartupWarning})
				ttl.Hold("the TTL monitor has not started: the data belong to a member of a replica set (local.system.replset has documents)")
				return nil
			}
			ttl.Start()
			return nil
		},
		Stop: func(context.Context) error { ttl.Stop(); return nil },
	}
}

// engineFailed exits the process: the engine's state in memory is undefined, but the
// one on disk has all acknowledged writes.
func (s *Server) engineFailed(err error) {
	s.control.Log(s.life, LevelFatal, "The storage engine cannot continue", "id", logEngineFailed, "error", err)
	s.exitNow(config.ExitAbrupt)
}
