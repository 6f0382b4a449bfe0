package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// archiveRow is the removal of what is due where it is written to files first, beside removal alone.
const archiveRow = "archive"

// archive measures the row archiveRow.
func (b *bench) archive(ctx context.Context) error {
	type run struct {
		name string
		s    expirer
		l    layout
	}
	runs := []run{{"mayfly", b.server, layout{Due: true, Archive: true}}, {"removal alone", b.server, layout{Due: true}}}
	if b.pg != nil {
		runs = append(runs, run{"postgres, COPY and DELETE", b.pg, layout{Due: true, Archive: true}})
	}
	var all []removal
	for _, r := range runs {
		found, err := b.remove(ctx, r.s, r.l, r.name)
		if err != nil {
			return err
		}
		all = append(all, *found)
	}
	return b.tellRemovals("archive and removal", all)
}

// archivePlace is where servers of the benchmark may archive.
func archivePlace(dir string) string { return "file://" + filepath.Join(dir, "archive") }

// archives has the server archive what expires.
func (m *mayfly) archives(ctx context.Context) error {
	to := doc("mayfly", doc("expiry", doc("archive", doc("to", archivePlace(filepath.Dir(m.dir))))))
	return m.plain.Database().RunCommand(ctx, bson.D{{Key: "collMod", Value: m.plain.Name()},
		{Key: "index", Value: bson.D{{Key: "name", Value: "due_1"}, {Key: "storageEngine", Value: to}}}}).Err()
}

// copyDue writes what is due to a file of the server's.
func (p *postgres) copyDue(ctx context.Context, c *pgx.Conn) error {
	var dir string
	if err := c.QueryRow(ctx, `SHOW data_directory`).Scan(&dir); err != nil {
		return err
	}
	_, err := c.Exec(ctx, fmt.Sprintf(`COPY (SELECT * FROM documents WHERE (doc->>'due')::bigint <= %d) TO '%s'`, time.Now().UnixMilli(), filepath.Join(dir, "archived")))
	return err
}
