package cluster

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

var restores = flag.Int("cluster.restores", 1, "to how many times TestBackup restores its cluster")

// stamp is a cluster time: seconds, and a counter in the lower 32 bits.
type stamp uint64

func stampOf(t *bson.Timestamp) stamp { return stamp(uint64(t.T)<<32 | uint64(t.I)) }

func (s stamp) String() string { return fmt.Sprintf("%d.%d", uint64(s)>>32, uint32(s)) }

// dated is a transfer that is committed: after the time at which it began, and at or before the
// one that its client was told.
type dated struct {
	number      int64
	begun, done stamp
}

// transfers does transfers until ctx ends, and returns those that were committed.
func (b *bank) transfers(t *testing.T, ctx context.Context) (all []dated) {
	for ctx.Err() == nil {
		from, to := rand.IntN(accountCount), rand.IntN(accountCount)
		if from == to {
			continue
		}
		s, err := b.client.StartSession()
		if err != nil {
			t.Error(err)
			return all
		}
		within := mongo.NewSessionContext(context.WithoutCancel(ctx), s)
		err = b.client.Database("admin").RunCommand(within, bson.D{{Key: "ping", Value: 1}}).Err()
		if err != nil {
			t.Error(err)
			return all
		}
		d := dated{number: b.next.Add(1), begun: stampOf(s.OperationTime())}
		_, err = s.WithTransaction(within, func(ctx context.Context) (any, error) {
			for i, id := range []int{from, to} {
				if _, err := b.accounts.UpdateOne(ctx, bson.D{{Key: "_id", Value: id}}, bson.D{{Key: "$inc", Value: bson.D{{Key: "balance", Value: 2*i - 1}}}}); err != nil {
					return nil, err
				}
			}
			_, err := b.log.InsertOne(ctx, bson.D{{Key: "_id", Value: d.number}, {Key: "from", Value: from}, {Key: "to", Value: to}})
			return nil, err
		})
		if err != nil {
			continue // a lock or a gate was not free; or, rarely, nobody knows what has happened
		}
		d.done = stampOf(s.OperationTime())
		s.EndSession(within)
		all = append(all, d)
	}
	return all
}

// repository is where the backups of a cluster are, and which keys they and its data need.
type repository struct{ dir, key, master string }

func newRepository(t *testing.T) *repository {
	t.Helper()
	dir := t.TempDir()
	r := &repository{filepath.Join(dir, "repository"), filepath.Join(dir, "key"), filepath.Join(dir, "master")}
	for _, path := range []string{r.key, r.master} {
		key := make([]byte, 32)
		_, _ = crand.Read(key) // it never fails
		if err := os.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(key)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// sealed are the options of a server whose data are encrypted.
func (r *repository) sealed() []string {
	return []string{"--enableEncryption", "--encryptionKeyFile", r.master}
}

// do runs mayfly with the repository as the one to go to, or from.
func (r *repository) do(t *testing.T, place string, args ...string) (int, string) {
	t.Helper()
	return testkit.Exec(t, nil, append(args, place, r.dir, "--encryptionKeyFile", r.key)...)
}

// follow runs mayfly backup --follow on a cluster until stop is called.
func (c *cluster) follow(t *testing.T, r *repository) (stop func(os.Signal) string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(testkit.Binary(t), "backup", "--follow", "--uri", c.routers[0].URI(), "--to", r.dir, "--encryptionKeyFile", r.key, "--every", "3s", "--logEvery", "300ms")
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return func(s os.Signal) string {
		_ = cmd.Process.Signal(s)
		if err := cmd.Wait(); err != nil && s != os.Kill {
			t.Errorf("mayfly backup --follow: %v\n%s", err, &out)
		}
		return out.String()
	}
}

// TestBackup backs up a cluster at one time while transfers go over its shards, chunks move and
// collections come and go, and restores it to times chosen at random, elsewhere and while the old
// one lives: all transfers that were acknowledged before the time are there, none that began
// behind it, and none in part. What was prepared at the time is decided, and the moves of that
// time end. The data of one shard are encrypted, those of all parts that are restored are.
func TestBackup(t *testing.T) {
	repository := newRepository(t)
	c := start(t, 1, 2)
	c.addShard(t, 1, repository.sealed()...)
	c.admin(t, bson.D{{Key: "balancerStop", Value: 1}})
	b := openBank(t, c)
	due := c.routers[0].Client().Database("bank").Collection("due")
	c.admin(t, bson.D{{Key: "shardCollection", Value: "bank.due"}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}})
	if _, err := due.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetExpireAfterSeconds(0)}); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var all []dated
	var mu sync.Mutex
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			did := b.transfers(t, ctx)
			mu.Lock()
			all = append(all, did...)
			mu.Unlock()
		})
	}
	var moves, made atomic.Int64
	work.Go(func() {
		for ctx.Err() == nil {
			ns := []string{"bank.accounts", "bank.log", "bank.due"}[rand.IntN(3)]
			if chunks := c.chunksOf(t, ns); len(chunks) > 0 && c.move(t, c.routers[0].Client(), ns, chunks[rand.IntN(len(chunks))]) {
				moves.Add(1)
			}
		}
	})
	work.Go(func() {
		db := c.routers[1].Client().Database("bank")
		for i := 0; ctx.Err() == nil; i++ {
			name := fmt.Sprintf("c%d", i)
			err := c.routers[1].Client().Database("admin").RunCommand(t.Context(), bson.D{{Key: "shardCollection", Value: "bank." + name}, {Key: "key", Value: bson.D{{Key: "_id", Value: "hashed"}}}}).Err()
			if err == nil {
				_, err = due.InsertOne(t.Context(), bson.D{{Key: "_id", Value: i}, {Key: "at", Value: time.Now().Add(time.Minute)}})
			}
			if err == nil && i > 2 {
				err = db.Collection(fmt.Sprintf("c%d", i-2)).Drop(t.Context())
			}
			if err != nil {
				t.Error(err)
				return
			}
			made.Add(1)
			time.Sleep(50 * time.Millisecond)
		}
	})
	stop := c.follow(t, repository)
	until(t, "a backup", func() error {
		if code, out := repository.do(t, "--from", "backup", "list"); code != 0 || !strings.Contains(out, "cluster") {
			return errors.New(out)
		}
		return nil
	})
	from := stamp(time.Now().Unix()+1) << 32
	time.Sleep(2500 * time.Millisecond)
	stop(os.Kill)
	stop = c.follow(t, repository)
	time.Sleep(2500 * time.Millisecond)
	end()
	work.Wait()
	if code, out := repository.do(t, "--to", "backup", "--uri", c.routers[0].URI()); code != 0 { // up to behind all that was done
		t.Fatal(out)
	}
	if out := stop(syscall.SIGTERM); strings.Contains(out, "gap") {
		t.Error(out)
	}
	for _, d := range all {
		b.told[d.number] = true
	}
	b.judge(t) // else the restores are not to blame
	if t.Failed() {
		t.FailNow()
	}
	code, out := repository.do(t, "--from", "backup", "verify", "--restore", "--dataEncryptionKeyFile", repository.master)
	if t.Logf("%d transfers, %d moves, %d collections; %s", len(all), moves.Load(), made.Load(), out); code != 0 {
		t.Fatal("it is not intact")
	}
	if code, out := repository.do(t, "--to", "backup", "--uri", c.shards[0].URI()); code != 100 || !strings.Contains(out, "router") {
		t.Errorf("the backup of a shard alone: %s", out)
	}
	if code, out := repository.do(t, "--from", "restore", "--to", filepath.Join(t.TempDir(), "new")); code != 100 || !strings.Contains(out, "--host s1=s1/HOST:PORT") {
		t.Errorf("a restore that is not told where the parts will be: %s", out)
	}
	if code, out := repository.do(t, "--from", "restore", "--to", filepath.Join(t.TempDir(), "new"), "--ns", "bank.log"); code != 100 || !strings.Contains(out, "collections of a cluster are not restored by themselves") {
		t.Errorf("a restore of a collection: %s", out)
	}
	slices.SortFunc(all, func(x, y dated) int { return int(int64(x.done - y.done)) })
	behind, _ := slices.BinarySearchFunc(all, from, func(d dated, at stamp) int { return int(int64(d.done - at)) })
	for i := range *restores {
		d := all[behind+rand.IntN(len(all)-behind)]
		at := d.begun + stamp(rand.Uint64N(uint64(d.done-d.begun+1))) // often within its commit
		if d.begun>>32 != d.done>>32 {
			at = d.done - stamp(rand.Uint64N(4))
		}
		if i == 0 {
			at = d.done
		}
		b.restoredAt(t, repository, at, all)
	}
}

// restoredAt restores the cluster to a time, and judges it.
func (b *bank) restoredAt(t *testing.T, repository *repository, at stamp, all []dated) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new")
	args, ports := []string{"restore", "--to", dir, "--at", at.String(), "--dataEncryptionKeyFile", repository.master}, map[string]int{}
	for part, set := range map[string]string{"config": "cfg2", "s0": "t0", "s1": "t1"} { // sets of other names
		ports[part] = testkit.FreePort(t)
		args = append(args, "--host", fmt.Sprintf("%s=%s/localhost:%d", part, set, ports[part]))
	}
	code, out := repository.do(t, "--from", args...)
	if code != 0 {
		t.Fatalf("a restore to %s: %s", at, out)
	}
	sealed := repository.sealed()
	c := &cluster{config: testkit.StartOn(t, ports["config"], filepath.Join(dir, "config"), append(sealed, "--configsvr", "--replSet", "cfg2", "--initiate")...)}
	for i := range 2 {
		name := fmt.Sprintf("s%d", i)
		c.shards = append(c.shards, testkit.StartOn(t, ports[name], filepath.Join(dir, name), append(sealed, "--shardsvr", "--replSet", fmt.Sprintf("t%d", i), "--initiate", "--setParameter", expiresSoon)...))
	}
	for range 2 {
		c.routers = append(c.routers, testkit.StartRouter(t, host("cfg2", c.config)))
	}
	defer func() {
		for _, s := range slices.Concat(c.routers, c.shards, []*testkit.Server{c.config}) {
			s.Kill()
		}
	}()
	client := c.routers[0].Client()
	n := &bank{c: c, client: client, accounts: client.Database("bank").Collection("accounts"), log: client.Database("bank").Collection("log"), told: map[int64]bool{}}
	for _, d := range all {
		switch {
		case d.done <= at:
			n.told[d.number] = true
		case d.begun >= at:
			n.told[d.number] = false
		}
	}
	there, known := n.judge(t), len(n.told)
	c.settles(t)
	if _, err := client.Database("bank").Collection("due").CountDocuments(t.Context(), bson.D{}); err != nil {
		t.Error(err)
	}
	n.told, n.client = map[int64]bool{}, client
	n.next.Store(1 << 40)
	if _, err := n.transfer(t.Context(), 0, 1); err != nil { // it works
		t.Error(err)
	}
	for _, k := range c.chunksOf(t, "bank.accounts") {
		c.move(t, client, "bank.accounts", k)
	}
	n.judge(t)
	t.Logf("at %s: %d transfers, of %d it is known; %s", at, there, known, strings.TrimSpace(out))
}
