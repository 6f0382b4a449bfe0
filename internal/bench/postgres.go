package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// postgres is a PostgreSQL cluster on a directory of its own: a table with the
// document's _id and the document as jsonb, and expression indexes.
//
// Its commits are as durable as the server's: synchronous_commit is off for
// the default write concern and the log is written every 100 ms; for j: true
// it is on.
type postgres struct {
	copies  bool // what is due, to a file, before it removes it
	process *process
	port    int
	url     string
	conn    *pgx.Conn // of session, or nil
	padding string    // of documents
}

// postgresUser runs the cluster if the benchmark itself is root, which
// PostgreSQL refuses.
const postgresUser = "postgres"

// postgresSettings keep checkpoints and autovacuum out of the rows.
var postgresSettings = []string{
	"shared_buffers=1GB", "max_wal_size=16GB", "checkpoint_timeout=30min", "autovacuum=off", "fsync=on",
	"synchronous_commit=off", "wal_writer_delay=100ms", "unix_socket_directories=", "listen_addresses=127.0.0.1", "max_connections=64",
}

// postgresBinary finds initdb or postgres.
func postgresBinary(name string) (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err == nil && len(found) > 0 {
		slices.Sort(found)
		return found[len(found)-1], nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: install Debian's postgresql-15, or leave PostgreSQL out with -postgres=false", err)
	}
	return path, nil
}

// asPostgres makes a command that runs as postgresUser if we are root; dir
// belongs to that user then.
func asPostgres(dir, name string, args ...string) (*exec.Cmd, error) {
	path, err := postgresBinary(name)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	if os.Getuid() != 0 {
		return cmd, nil
	}
	u, err := user.Lookup(postgresUser)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	return cmd, os.Chown(dir, uid, gid)
}

func startPostgres(ctx context.Context, dir string) (*postgres, error) {
	data, err := postgresCluster(dir, "postgres")
	if err != nil {
		return nil, err
	}
	return runPostgres(ctx, data, postgresSettings)
}

// postgresCluster makes an empty cluster on a directory of this name.
func postgresCluster(dir, name string) (data string, err error) {
	data = filepath.Join(dir, name)
	if err := makePostgresDir(data); err != nil {
		return "", err
	}
	return data, runAsPostgres(data, "initdb", "-D", data, "-U", postgresUser, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
}

// makePostgresDir makes a directory that asPostgres can give away.
func makePostgresDir(data string) error {
	return errors.Join(os.Mkdir(data, 0o700), os.Chmod(filepath.Dir(data), 0o755))
}

// runAsPostgres runs one of PostgreSQL's programs on a directory to its end.
func runAsPostgres(dir, name string, args ...string) error {
	cmd, err := asPostgres(dir, name, args...)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// runPostgres starts the server of a cluster.
func runPostgres(ctx context.Context, data string, settings []string) (*postgres, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	args := []string{"-D", data, "-p", strconv.Itoa(port)}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	cmd, err := asPostgres(data, "postgres", args...)
	if err != nil {
		return nil, err
	}
	p := &postgres{port: port, url: fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", postgresUser, local(port))}
	if p.process, err = startProcess(cmd, filepath.Dir(data), filepath.Base(data)); err != nil {
		return nil, err
	}
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		c, err := pgx.Connect(ctx, p.url)
		if err == nil {
			return p, c.Close(ctx)
		}
		if time.Since(begun) > startTimeout {
			return nil, errors.Join(err, p.close())
		}
	}
}

// close stops the cluster at once ("immediate shutdown"): its data are not
// needed any more.
func (p *postgres) close() error {
	if p.conn != nil {
		_ = p.conn.Close(context.Background()) // the server stops anyway
	}
	return p.process.stop(syscall.SIGQUIT)
}

// session is the connection of rows with one client.
func (p *postgres) session(ctx context.Context) (*pgx.Conn, error) {
	if p.conn != nil {
		return p.conn, nil
	}
	var err error
	p.conn, err = pgx.Connect(ctx, p.url)
	return p.conn, err
}

func (p *postgres) cpu() (time.Duration, error) { return p.process.cpu() }

func (p *postgres) exec(ctx context.Context, statements ...string) error {
	c, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	for _, s := range statements {
		if _, err := c.Exec(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

func (p *postgres) reset(ctx context.Context, l layout) error {
	p.padding, p.copies = l.padding(), l.Archive
	statements := []string{
		`DROP TABLE IF EXISTS documents`,
		`CREATE TABLE documents (id bigint PRIMARY KEY, doc jsonb NOT NULL)`,
		`CREATE INDEX ON documents (((doc->>'k')::bigint))`,
	}
	if l.Due {
		statements = append(statements, `CREATE INDEX ON documents (((doc->>'due')::bigint))`)
	}
	return p.exec(ctx, statements...)
}

func (p *postgres) worker(ctx context.Context) (worker, error) {
	w := &postgresWorker{padding: p.padding}
	var err error
	if w.plain, err = pgx.Connect(ctx, p.url); err != nil {
		return nil, err
	}
	if w.journaled, err = pgx.Connect(ctx, p.url); err != nil {
		return nil, err
	}
	_, err = w.journaled.Exec(ctx, `SET synchronous_commit = on`)
	return w, err
}

// postgresWorker is one connection for each durability; statements are
// prepared at first use.
type postgresWorker struct {
	plain, journaled *pgx.Conn
	padding          string
}

func (w *postgresWorker) close() error {
	ctx := context.Background()
	return errors.Join(w.plain.Close(ctx), w.journaled.Close(ctx))
}

func (w *postgresWorker) connection(journaled bool) *pgx.Conn {
	if journaled {
		return w.journaled
	}
	return w.plain
}

func (w *postgresWorker) insert(ctx context.Context, id int64, journaled bool) error {
	_, err := w.connection(journaled).Exec(ctx, `INSERT INTO documents VALUES ($1, $2)`, id, jsonDocument(id, never, w.padding))
	return err
}

func (w *postgresWorker) insertMany(ctx context.Context, first int64, n int, due int64) error {
	return w.insertDue(ctx, first, slices.Repeat([]int64{due}, n))
}

func (w *postgresWorker) insertDue(ctx context.Context, first int64, due []int64) error {
	ids, docs := make([]int64, len(due)), make([]json.RawMessage, len(due))
	for i := range ids {
		ids[i] = first + int64(i)
		docs[i] = jsonDocument(ids[i], due[i], w.padding)
	}
	_, err := w.plain.Exec(ctx, `INSERT INTO documents SELECT * FROM unnest($1::bigint[], $2::jsonb[])`, ids, docs)
	return err
}

func (w *postgresWorker) touch(ctx context.Context, id, due int64) error {
	return w.change(ctx, w.plain, `UPDATE documents SET doc = jsonb_set(doc, '{due}', to_jsonb($2::bigint)) WHERE id = $1`, id, due)
}

// read runs a query for documents and makes sure that it finds n.
func (w *postgresWorker) read(ctx context.Context, n int, sql string, args ...any) error {
	found, err := w.plain.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer found.Close()
	rows := 0
	for found.Next() {
		if len(found.RawValues()[0]) > 0 {
			rows++
		}
	}
	if err := found.Err(); err != nil {
		return err
	}
	if rows != n {
		return errWrong
	}
	return nil
}

func (w *postgresWorker) find(ctx context.Context, id int64) error {
	return w.read(ctx, 1, `SELECT doc FROM documents WHERE id = $1`, id)
}

func (w *postgresWorker) findByKey(ctx context.Context, key int64) error {
	return w.read(ctx, 1, `SELECT doc FROM documents WHERE (doc->>'k')::bigint = $1`, key)
}

func (w *postgresWorker) scan(ctx context.Context, id int64, n int) error {
	return w.read(ctx, n, `SELECT doc FROM documents WHERE id >= $1 AND id < $2`, id, id+int64(n))
}

func (w *postgresWorker) scanByKey(ctx context.Context, key int64, n int) error {
	return w.read(ctx, n, `SELECT doc FROM documents WHERE (doc->>'k')::bigint >= $1 ORDER BY (doc->>'k')::bigint LIMIT $2`, key, n)
}

// change runs a statement that must change one row.
func (w *postgresWorker) change(ctx context.Context, c *pgx.Conn, sql string, args ...any) error {
	tag, err := c.Exec(ctx, sql, args...)
	if err == nil && tag.RowsAffected() != 1 {
		return errWrong
	}
	return err
}

func (w *postgresWorker) increment(ctx context.Context, id int64, journaled bool) error {
	return w.change(ctx, w.connection(journaled),
		`UPDATE documents SET doc = jsonb_set(doc, '{n}', to_jsonb((doc->>'n')::bigint + 1)) WHERE id = $1`, id)
}

func (w *postgresWorker) remove(ctx context.Context, id int64) error {
	return w.change(ctx, w.plain, `DELETE FROM documents WHERE id = $1`, id)
}

// postgresBatch is how many rows one DELETE of expire takes.
const postgresBatch = 10000

// expire deletes in batches, by the rows' places, the fastest that
// PostgreSQL has, and vacuums the table.
func (p *postgres) expire(ctx context.Context, total int64, progress func(int64)) error {
	c, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	if p.copies {
		progress(0)
		if err := p.copyDue(ctx, c); err != nil {
			return err
		}
	}
	for gone := int64(0); gone < total; {
		tag, err := c.Exec(ctx, `DELETE FROM documents WHERE ctid = ANY(ARRAY(
			SELECT ctid FROM documents WHERE (doc->>'due')::bigint <= $1 ORDER BY (doc->>'due')::bigint LIMIT $2))`,
			time.Now().UnixMilli(), postgresBatch)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return errWrong
		}
		gone += tag.RowsAffected()
		progress(gone)
	}
	_, err = c.Exec(ctx, `VACUUM documents`)
	return err
}
