package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	readingsName = "readings"
	// keepAll is an expireAfterSeconds, in seconds, under which all stay.
	keepAll = 20 * 365 * 24 * 3600
)

func (m *mayfly) record(ctx context.Context, _ *series) error {
	c := m.collection(readingsName)
	if err := c.Drop(ctx); err != nil {
		return err
	}
	series := options.TimeSeries().SetTimeField("ts").SetMetaField("sensor").SetGranularity("minutes")
	// Whole buckets would be removed after the period ends.
	exact := doc("mayfly", doc("expiry", doc("exact", true)))
	return c.Database().CreateCollection(ctx, readingsName,
		options.CreateCollection().SetTimeSeriesOptions(series).SetExpireAfterSeconds(keepAll).SetStorageEngine(exact))
}

func (m *mayfly) recorder(context.Context) (recording, error) {
	return &mayflyRecording{m.collection(readingsName)}, nil
}

// seriesDisk is what the store's tables take.
func (m *mayfly) seriesDisk(ctx context.Context) (total int64, err error) {
	if err := errors.Join(m.restart(ctx), settled(ctx, m)); err != nil {
		return 0, err
	}
	if total, err = treeSize(m.dir, ".sst"); err != nil {
		return 0, err
	}
	// The monitor knows it already, so it does not have to search for it.
	return total, m.monitor(ctx, true)
}

// forget makes what is older than the end of the first period due, and waits
// until nothing of it is left.
func (m *mayfly) forget(ctx context.Context, s *series) error {
	end := s.from.Add(s.period)
	c := m.collection(readingsName)
	seconds := int64(time.Since(end) / time.Second)
	if err := c.Database().RunCommand(ctx, doc("collMod", readingsName, "expireAfterSeconds", seconds)).Err(); err != nil {
		return err
	}
	for begun := time.Now(); time.Since(begun) < forgetTimeout; time.Sleep(forgetPoll) {
		err := c.FindOne(ctx, doc("ts", doc("$lt", end))).Err()
		if errors.Is(err, mongo.ErrNoDocuments) {
			return m.monitor(ctx, false)
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("readings before %v are still there: %w", end, errWrong)
}

// forgetPoll is the pause between two checks whether anything is left.
const forgetPoll = 2 * time.Millisecond

// forgetTimeout is how long the removal of a period may take.
const forgetTimeout = 5 * time.Minute

type mayflyRecording struct{ c *mongo.Collection }

func (w *mayflyRecording) close() error { return nil }

func (w *mayflyRecording) insert(ctx context.Context, r []reading) error {
	docs := make([]any, len(r))
	for i := range r {
		docs[i] = bson.Raw(r[i].bson())
	}
	_, err := w.c.InsertMany(ctx, docs)
	return err
}

func (w *mayflyRecording) last(ctx context.Context, sensor int32) (time.Time, error) {
	d, err := w.c.FindOne(ctx, doc("sensor", sensor), options.FindOne().SetSort(doc("ts", -1))).Raw()
	if err != nil {
		return time.Time{}, err
	}
	return d.Lookup("ts").Time(), nil
}

func (w *mayflyRecording) lastOfAll(ctx context.Context) (n int, err error) {
	c, err := w.c.Aggregate(ctx, bson.A{
		doc("$sort", bson.D{{Key: "sensor", Value: 1}, {Key: "ts", Value: -1}}),
		doc("$group", doc("_id", "$sensor", "at", doc("$first", "$ts"), "temperature", doc("$first", "$temperature"))),
	})
	if err != nil {
		return 0, err
	}
	return countAll(ctx, c)
}

func (w *mayflyRecording) one(ctx context.Context, sensor int32, from, to time.Time) (n int, err error) {
	c, err := w.c.Find(ctx, doc("sensor", sensor, "ts", doc("$gte", from, "$lt", to)))
	if err != nil {
		return 0, err
	}
	return countAll(ctx, c)
}

// countAll reads a cursor to its end.
func countAll(ctx context.Context, c *mongo.Cursor) (n int, err error) {
	defer c.Close(ctx)
	for c.Next(ctx) {
		n++
	}
	return n, c.Err()
}

func (w *mayflyRecording) hourly(ctx context.Context, from, to time.Time) (n int, sum float64, err error) {
	c, err := w.c.Aggregate(ctx, bson.A{
		doc("$match", doc("ts", doc("$gte", from, "$lt", to))),
		doc("$group", doc("_id", doc("$dateTrunc", doc("date", "$ts", "unit", "hour")), "mean", doc("$avg", "$temperature"))),
	})
	if err != nil {
		return 0, 0, err
	}
	defer c.Close(ctx)
	for c.Next(ctx) {
		n++
		sum += c.Current.Lookup("mean").Double()
	}
	return n, sum, c.Err()
}

func (p *postgres) record(ctx context.Context, s *series) error {
	statements := []string{
		`DROP TABLE IF EXISTS readings`,
		`CREATE TABLE readings (ts timestamptz NOT NULL, sensor int NOT NULL, pressure float8, temperature float8, wind float8) PARTITION BY RANGE (ts)`,
		`CREATE INDEX ON readings (sensor, ts)`,
	}
	for i := range s.periods() {
		from := s.from.Add(time.Duration(i) * s.period)
		statements = append(statements, fmt.Sprintf(`CREATE TABLE readings_%d PARTITION OF readings FOR VALUES FROM ('%s') TO ('%s')`,
			i, from.Format(time.RFC3339), from.Add(s.period).Format(time.RFC3339)))
	}
	return p.exec(ctx, statements...)
}

func (p *postgres) recorder(ctx context.Context) (recording, error) {
	c, err := pgx.Connect(ctx, p.url)
	return &postgresRecording{c}, err
}

func (p *postgres) seriesDisk(ctx context.Context) (total int64, err error) {
	if err := p.exec(ctx, `VACUUM ANALYZE readings`, `CHECKPOINT`); err != nil {
		return 0, err
	}
	c, err := p.session(ctx)
	if err != nil {
		return 0, err
	}
	return total, c.QueryRow(ctx, `SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('readings')`).Scan(&total)
}

func (p *postgres) forget(ctx context.Context, _ *series) error {
	return p.exec(ctx, `DROP TABLE readings_0`)
}

type postgresRecording struct{ c *pgx.Conn }

func (w *postgresRecording) close() error { return w.c.Close(context.Background()) }

func (w *postgresRecording) insert(ctx context.Context, r []reading) error {
	n := len(r)
	at, sensor := make([]time.Time, n), make([]int32, n)
	pressure, temperature, wind := make([]float64, n), make([]float64, n), make([]float64, n)
	for i, x := range r {
		at[i], sensor[i], pressure[i], temperature[i], wind[i] = x.at, x.sensor, x.pressure, x.temperature, x.wind
	}
	_, err := w.c.Exec(ctx, `INSERT INTO readings SELECT * FROM unnest($1::timestamptz[], $2::int[], $3::float8[], $4::float8[], $5::float8[])`,
		at, sensor, pressure, temperature, wind)
	return err
}

func (w *postgresRecording) last(ctx context.Context, sensor int32) (at time.Time, err error) {
	var pressure, temperature, wind float64
	err = w.c.QueryRow(ctx, `SELECT ts, pressure, temperature, wind FROM readings WHERE sensor = $1 ORDER BY ts DESC LIMIT 1`, sensor).
		Scan(&at, &pressure, &temperature, &wind)
	return at, err
}

func (w *postgresRecording) lastOfAll(ctx context.Context) (n int, err error) {
	rows, err := w.c.Query(ctx, `SELECT DISTINCT ON (sensor) sensor, ts, temperature FROM readings ORDER BY sensor, ts DESC`)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}

func (w *postgresRecording) one(ctx context.Context, sensor int32, from, to time.Time) (n int, err error) {
	rows, err := w.c.Query(ctx, `SELECT ts, sensor, pressure, temperature, wind FROM readings WHERE sensor = $1 AND ts >= $2 AND ts < $3`, sensor, from, to)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		n++
	}
	return n, rows.Err()
}

func (w *postgresRecording) hourly(ctx context.Context, from, to time.Time) (n int, sum float64, err error) {
	rows, err := w.c.Query(ctx, `SELECT date_trunc('hour', ts), avg(temperature) FROM readings WHERE ts >= $1 AND ts < $2 GROUP BY 1`, from, to)
	if err != nil {
		return 0, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var at time.Time
		var mean float64
		if err := rows.Scan(&at, &mean); err != nil {
			return 0, 0, err
		}
		n++
		sum += mean
	}
	return n, sum, rows.Err()
}
