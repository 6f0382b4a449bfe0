package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"
)

// standbys is a PostgreSQL cluster with two standbys that it streams to. A commit
// returns when the disk of the cluster has it, and that of one standby.
type standbys struct {
	*postgres             // the primary
	others    []*postgres // read-only
}

// standbyNames are what the standbys call themselves.
var standbyNames = []string{"a", "b"}

// standbySettings are postgresSettings of all three. One client takes two connections.
var standbySettings = append(postgresSettings[:len(postgresSettings):len(postgresSettings)],
	"synchronous_commit=on", "wal_level=replica", "max_wal_senders=8", "hot_standby=on",
	"max_connections="+strconv.Itoa(2*maxClients+16), "shared_buffers=512MB")

func startStandbys(ctx context.Context, dir string) (_ *standbys, err error) {
	data, err := postgresCluster(dir, "postgres-primary")
	if err != nil {
		return nil, err
	}
	s := &standbys{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.postgres, err = runPostgres(ctx, data, append(standbySettings, "synchronous_standby_names=ANY 1 (a, b)")); err != nil {
		return s, err
	}
	for _, name := range standbyNames {
		data := filepath.Join(dir, "postgres-"+name)
		from := fmt.Sprintf("host=127.0.0.1 port=%d user=%s application_name=%s", s.port, postgresUser, name)
		if err := makePostgresDir(data); err != nil {
			return s, err
		}
		if err := runAsPostgres(data, "pg_basebackup", "-D", data, "-d", from, "-R", "-X", "stream", "-c", "fast", "--no-sync"); err != nil {
			return s, err
		}
		p, err := runPostgres(ctx, data, standbySettings)
		if err != nil {
			return s, err
		}
		s.others = append(s.others, p)
	}
	return s, s.streaming(ctx)
}

// streaming waits until both standbys count.
func (s *standbys) streaming(ctx context.Context) error {
	c, err := s.session(ctx)
	if err != nil {
		return err
	}
	for begun := time.Now(); time.Since(begun) < startTimeout; time.Sleep(50 * time.Millisecond) {
		n := 0
		if err := c.QueryRow(ctx, `SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'quorum'`).Scan(&n); err != nil {
			return err
		}
		if n == len(standbyNames) {
			return nil
		}
	}
	return errors.New("the standbys of PostgreSQL are not streaming")
}

// caughtUp waits until the standbys have replayed what the primary has.
func (s *standbys) caughtUp(ctx context.Context) error {
	c, err := s.session(ctx)
	if err != nil {
		return err
	}
	for begun := time.Now(); time.Since(begun) < startTimeout; time.Sleep(50 * time.Millisecond) {
		n := 0
		if err := c.QueryRow(ctx, `SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= pg_current_wal_lsn()`).Scan(&n); err != nil {
			return err
		}
		if n == len(standbyNames) {
			return nil
		}
	}
	return errors.New("the standbys of PostgreSQL did not catch up")
}

// onStandby is the same, with reads from a standby.
func (s *standbys) onStandby() *standbys {
	r, p := *s, *s.postgres
	p.url = s.others[0].url
	r.postgres = &p
	return &r
}

func (s *standbys) all() []*postgres {
	if s.postgres == nil {
		return s.others
	}
	return append([]*postgres{s.postgres}, s.others...)
}

func (s *standbys) cpu() (total time.Duration, err error) {
	for _, p := range s.all() {
		used, err := p.cpu()
		if err != nil {
			return 0, err
		}
		total += used
	}
	return total, nil
}

func (s *standbys) close() (err error) {
	for _, p := range s.all() {
		err = errors.Join(err, p.close())
	}
	return err
}
