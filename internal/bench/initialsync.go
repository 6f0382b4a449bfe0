package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"text/tabwriter"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	// initialSyncRow is the name of the row in which a member joins a set of one that has
	// the documents, which do not compress, while clients work at a steady rate. Next to
	// it: cp of the files that the first member has, with their sync, to the same disk.
	initialSyncRow = "initialSync"
	// syncTimeout bounds how long the member may take.
	syncTimeout = time.Hour
	// syncPoll is the pause between two requests for a member's progress.
	syncPoll = 50 * time.Millisecond
)

// initialSync is what the row measured.
type initialSync struct {
	copied, sent    int64 // bytes
	copying         time.Duration
	files           time.Duration // until the files are there
	secondary       time.Duration // until the member is SECONDARY
	caughtUp        time.Duration // and has what was written during the copy
	sender, member  time.Duration // processor time
	quiet, cp, sync steadyPhases
}

// initialSync measures the row.
func (b *bench) initialSync(ctx context.Context) (err error) {
	s, err := startSetOfOne(ctx, b.dir, &b.o)
	defer func() { err = errors.Join(err, s.close()) }()
	if err != nil {
		return err
	}
	if err := s.reset(ctx, layout{Mixed: true}); err != nil {
		return err
	}
	if err := fill(ctx, s, 0, b.o.Documents, never); err != nil {
		return err
	}
	if err := settled(ctx, s); err != nil {
		return err
	}
	r := &initialSync{}
	if r.quiet, err = steadyWhile(ctx, s, b.o.Documents, func() error { time.Sleep(liveQuiet); return nil }); err != nil {
		return err
	}
	if r.cp, err = steadyWhile(ctx, s, b.o.Documents, func() error { return r.copyFiles(ctx, s.members[0].dir, filepath.Join(b.dir, "copy")) }); err != nil {
		return fmt.Errorf("cp: %w", err)
	}
	if err := settled(ctx, s); err != nil {
		return err
	}
	m, err := startServer(ctx, b.dir, fmt.Sprintf("member-%d", len(s.members)), &b.o, memberArgs()...)
	if err != nil {
		return err
	}
	profiled, err := b.profileSet(ctx, &replicaSet{mayfly: s.mayfly, members: []*mayfly{s.members[0], m}}, initialSyncRow)
	if err != nil {
		return errors.Join(err, m.close())
	}
	s.members = append(s.members, m)
	if r.sync, err = steadyWhile(ctx, s, b.o.Documents, func() error { return r.join(ctx, s, m) }); err != nil {
		return err
	}
	if err := profiled(); err != nil {
		return err
	}
	return r.print(b)
}

// copyFiles copies the files of a directory as cp does, waits until they are on the disk,
// and removes the copy.
func (r *initialSync) copyFiles(ctx context.Context, from, to string) (err error) {
	defer func() { err = errors.Join(err, os.RemoveAll(to)) }()
	if r.copied, err = treeSize(from); err != nil {
		return err
	}
	begun := time.Now()
	if out, err := exec.CommandContext(ctx, "cp", "-r", "--reflink=never", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	if err := syncTree(to); err != nil {
		return err
	}
	r.copying = time.Since(begun)
	return nil
}

// syncTree waits until all files below a directory are on the disk.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
}

// join adds a member to the set, as rs.add does, and waits until it has everything.
func (r *initialSync) join(ctx context.Context, s *replicaSet, m *mayfly) error {
	used, err := s.members[0].cpu()
	if err != nil {
		return err
	}
	own, err := m.cpu()
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := s.add(ctx, m); err != nil {
		return err
	}
	if err := r.watch(ctx, m, begun); err != nil {
		return err
	}
	if err := s.caughtUp(ctx); err != nil {
		return err
	}
	r.caughtUp = time.Since(begun)
	usedAfter, err := s.members[0].cpu()
	if err != nil {
		return err
	}
	ownAfter, err := m.cpu()
	r.sender, r.member = usedAfter-used, ownAfter-own
	return err
}

// watch asks a member for its progress until it is SECONDARY.
func (r *initialSync) watch(ctx context.Context, m *mayfly, begun time.Time) error {
	direct, err := mongo.Connect(options.Client().ApplyURI("mongodb://" + local(m.port) + "/?directConnection=true"))
	if err != nil {
		return err
	}
	defer func() { _ = direct.Disconnect(ctx) }()
	for ; ; time.Sleep(syncPoll) {
		if time.Since(begun) > syncTimeout {
			return errors.New("the member does not get ready")
		}
		var status struct {
			MyState int `bson:"myState"`
			Sync    struct {
				Total int64 `bson:"approxTotalDataSize"`
				Done  int64 `bson:"approxTotalBytesCopied"`
			} `bson:"initialSyncStatus"`
		}
		err := direct.Database("admin").RunCommand(ctx, doc("replSetGetStatus", 1)).Decode(&status)
		var failed mongo.CommandError
		if errors.As(err, &failed) && failed.Code == notYetInitialized {
			continue
		}
		if err != nil {
			return err
		}
		if t := status.Sync.Total; t > 0 {
			if r.sent = t; status.Sync.Done < t {
				r.files = time.Since(begun)
			}
		}
		if status.MyState == stateSecondary {
			r.secondary = time.Since(begun)
			return nil
		}
	}
}

const (
	// notYetInitialized is the code of a member's answers that is of no set yet.
	notYetInitialized = 94
	// stateSecondary is myState of a secondary.
	stateSecondary = 2
)

func (r *initialSync) print(b *bench) error {
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	rate := func(n int64, d time.Duration) string { return fmt.Sprintf("%.0f", float64(n)/1e6/d.Seconds()) }
	fmt.Fprintf(w, "\ninitial sync of %d documents\tMB\tfiles there, s\tSECONDARY, s\tcaught up, s\tMB/s\tof cp\tcpu/MB sender\tmember\t\n", b.o.Documents)
	fmt.Fprintf(w, "cp and sync\t%d\t%.2f\t\t\t%s\t\t\t\t\n", r.copied/1e6, r.copying.Seconds(), rate(r.copied, r.copying))
	fmt.Fprintf(w, "mayfly\t%d\t%.2f\t%.2f\t%.2f\t%s\t%.2f\t%s\t%s\t\n", r.sent/1e6, r.files.Seconds(), r.secondary.Seconds(), r.caughtUp.Seconds(), rate(r.sent, r.caughtUp),
		float64(r.sent)/r.caughtUp.Seconds()*r.copying.Seconds()/float64(r.copied),
		micros(r.sender/time.Duration(r.sent/1e6+1)), micros(r.member/time.Duration(r.sent/1e6+1)))
	if err := w.Flush(); err != nil {
		return err
	}
	return printSteady(b, []string{"before", "during cp", "during the sync"}, []steadyPhases{r.quiet, r.cp, r.sync})
}

// printSteady prints the latencies of a steady load in the parts of a row.
func printSteady(b *bench, names []string, parts []steadyPhases) error {
	w := tabwriter.NewWriter(b.o.Out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\n%d clients, %d operations/s\tfinds/s\tp50\tp99\tp99.9\tupdates/s\tp50\tp99\tp99.9\t\n", steadyClients, steadyPerSecond)
	for i, p := range parts {
		fmt.Fprintf(w, "%s\t%s%s\n", names[i], p.reads.cells(), p.writes.cells())
	}
	return w.Flush()
}

// startSetOfOne starts a set of one member.
func startSetOfOne(ctx context.Context, dir string, o *Options, more ...string) (*replicaSet, error) {
	s := &replicaSet{}
	m, err := startServer(ctx, dir, "member-0", o, memberArgs(append([]string{"--initiate"}, more...)...)...)
	if err != nil {
		return s, err
	}
	s.members, s.padding = append(s.members, m), padding
	return s, s.connect("mongodb://" + local(m.port) + "/?replicaSet=" + setName)
}

// add adds a member to the configuration.
func (s *replicaSet) add(ctx context.Context, m *mayfly) error {
	admin := s.client.Database("admin")
	var now struct {
		Config struct {
			ID      string `bson:"_id"`
			Version int    `bson:"version"`
			Members bson.A `bson:"members"`
		} `bson:"config"`
	}
	if err := admin.RunCommand(ctx, doc("replSetGetConfig", 1)).Decode(&now); err != nil {
		return err
	}
	members := append(now.Config.Members, doc("_id", len(now.Config.Members), "host", local(m.port)))
	return admin.RunCommand(ctx, doc("replSetReconfig", doc("_id", now.Config.ID, "version", now.Config.Version+1, "members", members))).Err()
}
