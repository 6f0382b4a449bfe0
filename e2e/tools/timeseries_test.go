package tools

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/mayflydb/mayfly/internal/testkit"
)

// series is a time-series collection of a day, and within it one hour of one sensor's.
func (c tool) series(db string, now time.Time) {
	c.t.Helper()
	c.run(db, bson.D{{Key: "create", Value: "series"}, {Key: "expireAfterSeconds", Value: int64(86400)}, {Key: "timeseries", Value: bson.D{
		{Key: "timeField", Value: "at"}, {Key: "metaField", Value: "sensor"}, {Key: "granularity", Value: "minutes"}}}})
	c.run(db, bson.D{{Key: "createIndexes", Value: "series"}, {Key: "indexes", Value: bson.A{
		bson.D{{Key: "key", Value: bson.D{{Key: "at", Value: 1}}}, {Key: "name", Value: "ttl"}, {Key: "expireAfterSeconds", Value: int32(3600)},
			{Key: "partialFilterExpression", Value: bson.D{{Key: "sensor.id", Value: 2}}}},
		bson.D{{Key: "key", Value: bson.D{{Key: "value", Value: 1}}}, {Key: "name", Value: "value"}},
	}}})
	var docs []bson.Raw
	for i := range 3000 {
		docs = append(docs, raw(c.t, bson.D{{Key: "_id", Value: i}, {Key: "at", Value: now.Add(-time.Duration(i) * time.Minute)},
			{Key: "sensor", Value: bson.D{{Key: "id", Value: i % 5}, {Key: "room", Value: "a"}}}, {Key: "value", Value: float64(i%13) / 4}}))
	}
	c.insert(db, "series", docs)
}

// buckets reads the buckets of a time series as mongodump does.
func (c tool) buckets(db, name string) (docs []bson.Raw) {
	c.t.Helper()
	c.run(db, bson.D{{Key: "collStats", Value: "system.buckets." + name}})
	cur, err := c.Database(db).Collection("system.buckets."+name).Find(c.t.Context(), bson.D{}, options.Find().SetHint(bson.D{{Key: "$natural", Value: 1}}))
	if err == nil {
		err = cur.All(c.t.Context(), &docs)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return docs
}

// measurements are those of a time series, by time.
func (c tool) measurements(db, name string) (docs []bson.D) {
	c.t.Helper()
	cur, err := c.Database(db).Collection(name).Find(c.t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "at", Value: 1}}))
	if err == nil {
		err = cur.All(c.t.Context(), &docs)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return docs
}

// TestTimeSeriesDumpAndRestore holds that the buckets of a time series that mongodump has read
// are its measurements again when mongorestore has inserted them, on a standalone and a set;
// that they expire there by the rules that it has restored; and what is told of wrong ones.
func TestTimeSeriesDumpAndRestore(t *testing.T) {
	from := tool{t, testkit.Start(t, "--setParameter", "ttlMonitorEnabled=false").Client()}
	from.series("db", time.Now().Truncate(time.Minute))
	listed := func(c tool, db, name string) bson.D {
		infos := c.cursor(db, bson.D{{Key: "listCollections", Value: 1}, {Key: "filter", Value: bson.D{{Key: "name", Value: name}}}, {Key: "cursor", Value: bson.D{}}})
		if len(infos) == 0 {
			return nil
		}
		return infos[0]
	}
	info := listed(from, "db", "series")
	if get(info, "type") != "timeseries" {
		t.Fatal(info)
	}
	indexes := from.cursor("db", bson.D{{Key: "listIndexes", Value: "series"}, {Key: "cursor", Value: bson.D{}}})
	buckets := from.buckets("db", "series")
	all := from.measurements("db", "series")

	for _, args := range [][]string{nil, {"--replSet", "rs0", "--initiate"}} {
		t.Run(fmt.Sprint(args), func(t *testing.T) {
			to := tool{t, testkit.Start(t, append(args, "--setParameter", "ttlMonitorEnabled=false", "--setParameter", "ttlMonitorSleepSecs=1")...).Client()}
			for _, name := range []string{"series", "system.buckets.series"} {
				if i := listed(to, "db", name); i != nil {
					t.Fatal(i)
				}
			}
			to.run("db", append(bson.D{{Key: "create", Value: "series"}}, get(info, "options").(bson.D)...))
			to.insert("db", "system.buckets.series", buckets)
			var specs bson.A
			for _, ix := range indexes {
				specs = append(specs, ix)
			}
			to.run("db", bson.D{{Key: "createIndexes", Value: "series"}, {Key: "indexes", Value: specs}, {Key: "ignoreUnknownIndexOptions", Value: true}})

			if i := listed(to, "db", "series"); !reflect.DeepEqual(get(i, "options"), get(info, "options")) {
				t.Errorf("options are %v, want %v", get(i, "options"), get(info, "options"))
			}
			if is := to.cursor("db", bson.D{{Key: "listIndexes", Value: "series"}, {Key: "cursor", Value: bson.D{}}}); !reflect.DeepEqual(is, indexes) {
				t.Errorf("indexes are\n%v, want\n%v", is, indexes)
			}
			if !reflect.DeepEqual(to.measurements("db", "series"), all) {
				t.Error("measurements differ")
			}
			if !reflect.DeepEqual(to.buckets("db", "series"), buckets) {
				t.Error("buckets differ")
			}
			if len(args) > 0 { // all of them are told
				told := to.cursor("local", bson.D{{Key: "find", Value: "oplog.rs"}, {Key: "filter", Value: bson.D{{Key: "op", Value: "i"}, {Key: "ns", Value: "db.series"}}}})
				if len(told) != len(all) {
					t.Errorf("the oplog has %d measurements of %d", len(told), len(all))
				}
			}
			to.wrongBuckets("db", buckets[0])

			validated := to.run("db", bson.D{{Key: "validate", Value: "series"}, {Key: "full", Value: true}})
			if validated["valid"] != true {
				t.Error(validated)
			}
			to.run("admin", bson.D{{Key: "setParameter", Value: 1}, {Key: "ttlMonitorEnabled", Value: true}})
			due := func(d bson.D) bool { // with a bucket's span of doubt
				age := time.Since(get(d, "at").(bson.DateTime).Time())
				return age > 48*time.Hour || get(get(d, "sensor").(bson.D), "id") == int32(2) && age > 25*time.Hour
			}
			for deadline := time.Now().Add(30 * time.Second); slices.ContainsFunc(to.measurements("db", "series"), due); time.Sleep(100 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("what is due does not go")
				}
			}
			live := 0
			for _, d := range to.measurements("db", "series") {
				if age := time.Since(get(d, "at").(bson.DateTime).Time()); age < time.Hour || age < 23*time.Hour && get(get(d, "sensor").(bson.D), "id") != int32(2) {
					live++
				}
			}
			if live < 1000 {
				t.Errorf("%d live measurements are left", live)
			}
		})
	}
}

// wrongBuckets inserts what are no buckets, and one that is there.
func (c tool) wrongBuckets(db string, there bson.Raw) {
	c.t.Helper()
	var bucket bson.D
	if err := bson.Unmarshal(there, &bucket); err != nil {
		c.t.Fatal(err)
	}
	made := byte(0)
	with := func(name string, value any) bson.D {
		id := get(bucket, "_id").(bson.ObjectID)
		made++
		id[5], id[11] = id[5]+1, made
		d := bson.D{{Key: "_id", Value: id}}
		for _, e := range bucket[1:] {
			if e.Key == name {
				e.Value = value
			}
			d = append(d, e)
		}
		return d
	}
	foreign := bson.D{}
	for _, e := range get(bucket, "data").(bson.D) {
		foreign = append(foreign, bson.E{Key: e.Key, Value: bson.Binary{Subtype: 7, Data: e.Value.(bson.Binary).Data}})
	}
	for name, wrong := range map[string]struct {
		doc  any
		code int
	}{
		"there":          {bucket, 11000},
		"no bucket":      {bson.D{{Key: "a", Value: 1}}, 121},
		"no _id":         {append(bson.D{{Key: "_id", Value: 1}}, bucket[1:]...), 121},
		"another second": {append(bson.D{{Key: "_id", Value: bson.NewObjectIDFromTimestamp(time.Unix(1, 0))}}, bucket[1:]...), 121},
		"another field":  {append(with("", nil), bson.E{Key: "more", Value: 1}), 121},
		"no control":     {with("control", 1), 121},
		"empty data":     {with("data", bson.D{}), 121},
		"garbage":        {with("data", bson.D{{Key: "at", Value: bson.Binary{Subtype: 0x80, Data: []byte{1, 2, 3}}}}), 121},
		"BSONColumn":     {with("data", foreign), 121},
	} {
		_, err := c.Database(db).Collection("system.buckets.series").InsertOne(c.t.Context(), wrong.doc)
		var we mongo.WriteException
		if !errors.As(err, &we) || len(we.WriteErrors) != 1 || we.WriteErrors[0].Code != wrong.code {
			c.t.Errorf("%s: %v", name, err)
		}
	}
	several := []any{bucket, with("", nil), bucket, bson.D{{Key: "a", Value: 1}}}
	_, err := c.Database(db).Collection("system.buckets.series").InsertMany(c.t.Context(), several, options.InsertMany().SetOrdered(false))
	var be mongo.BulkWriteException
	var failed []string
	if errors.As(err, &be) {
		for _, e := range be.WriteErrors {
			failed = append(failed, fmt.Sprintf("%d: %d", e.Index, e.Code))
		}
	}
	if !slices.Equal(failed, []string{"0: 11000", "2: 11000", "3: 121"}) {
		c.t.Errorf("%v: %v", failed, err)
	}
	if _, err := c.Database(db).Collection("system.buckets.series").DeleteOne(c.t.Context(), bson.D{}); err == nil {
		c.t.Error("a bucket was deleted")
	}
}
