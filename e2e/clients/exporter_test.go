package clients

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/bson"
	"go.mongodb.org/mongo-driver/bson/primitive"
	"go.mongodb.org/mongo-driver/mongo"
	"go.mongodb.org/mongo-driver/mongo/options"
	"go.mongodb.org/mongo-driver/mongo/readpref"
)

// metrics are the samples of a scrape: names with labels, to values.
type metrics map[string]float64

// keyed are the documents whose field names the exporter turns into a label of one
// metric.
var keyed = map[string]string{
	"mongodb_ss_asserts": "assert_type", "mongodb_ss_connections": "conn_type", "mongodb_ss_globalLock_currentQueue": "count_type",
	"mongodb_ss_metrics_commands": "cmd_name", "mongodb_ss_metrics_cursor_open": "csr_type", "mongodb_ss_metrics_document": "doc_op_type",
	"mongodb_ss_opLatencies": "op_type", "mongodb_ss_opReadConcernCounters": "concern_type", "mongodb_ss_opcounters": "legacy_op_type",
	"mongodb_ss_opcountersRepl": "legacy_op_type",
}

// add turns the numbers of a document into samples, as the exporter does. A type
// that it does not know would be an error of its scrape.
func (m metrics) add(t *testing.T, name, labels string, doc bson.M) {
	t.Helper()
	for key, v := range doc {
		sample := name + "_" + key
		var value float64
		switch v := v.(type) {
		case bson.M:
			m.add(t, sample, labels, v)
			continue
		case bool:
			if v {
				value = 1
			}
		case int32:
			value = float64(v)
		case int64:
			value = float64(v)
		case float64:
			value = v
		case primitive.DateTime:
			value = float64(v)
		case bson.A, primitive.ObjectID, primitive.Timestamp, primitive.Binary, string:
			continue
		default:
			t.Errorf("%s is a %T, which the exporter does not know", sample, v)
		}
		if label, is := keyed[name]; is {
			sample = name + "{" + label + "=" + key + "}"
		}
		sample = strings.Map(func(r rune) rune {
			if r == '.' || r == ' ' || r == '-' || r == '$' {
				return '_'
			}
			return r
		}, sample) + labels
		if _, is := m[sample]; is {
			t.Errorf("%s is there twice, which fails a scrape", sample)
		}
		m[sample] = value
	}
}

// exporter asks what percona/mongodb_exporter asks in one scrape with all its
// collectors on, in its driver. It is in no registry that the tests may use, so the
// questions are asked here.
type exporter struct {
	*testing.T
	client *mongo.Client
}

func (e exporter) ask(db string, command bson.D) (bson.M, error) {
	var reply bson.M
	err := e.client.Database(db).RunCommand(e.Context(), command).Decode(&reply)
	return reply, err
}

func (e exporter) must(db string, command bson.D) bson.M {
	e.Helper()
	reply, err := e.ask(db, command)
	if err != nil {
		e.Fatalf("%v: %v", command, err)
	}
	return reply
}

// connect is how the exporter finds out what it talks to: a standalone, no member of a
// set and no mongos.
func (e exporter) connect() {
	e.Helper()
	if err := e.client.Ping(e.Context(), readpref.PrimaryPreferred()); err != nil {
		e.Fatal(err)
	}
	master := e.must("admin", bson.D{{Key: "isMaster", Value: 1}})
	if master["setName"] != nil || master["msg"] != nil || master["ismaster"] != true {
		e.Errorf("isMaster: %v", master)
	}
	if e.must("admin", bson.D{{Key: "buildInfo", Value: 1}})["version"] == nil {
		e.Error("buildInfo has no version")
	}
	for _, command := range []string{"replSetGetConfig", "replSetGetStatus"} {
		_, err := e.ask("admin", bson.D{{Key: command, Value: "1"}})
		// 76 is NoReplicationEnabled: its collector says nothing then.
		if failed, ok := err.(mongo.CommandError); !ok || failed.Code != 76 {
			e.Errorf("%s: %v", command, err)
		}
	}
	if err := e.client.Database("config").Collection("version").FindOne(e.Context(), bson.D{}).Err(); err != mongo.ErrNoDocuments {
		e.Errorf("the id of the cluster: %v", err)
	}
	if parsed, ok := e.must("admin", bson.D{{Key: "getCmdLineOpts", Value: 1}})["parsed"].(bson.M); !ok || parsed["sharding"] != nil {
		e.Error("getCmdLineOpts has no parsed options")
	}
}

func (e exporter) namespaces() map[string][]string {
	e.Helper()
	found := map[string][]string{}
	names, err := e.client.ListDatabaseNames(e.Context(), bson.D{{Key: "$and", Value: bson.A{
		bson.D{{Key: "name", Value: bson.D{{Key: "$ne", Value: "admin"}}}}, bson.D{{Key: "name", Value: bson.D{{Key: "$ne", Value: "config"}}}},
		bson.D{{Key: "name", Value: bson.D{{Key: "$ne", Value: "local"}}}},
	}}}, options.ListDatabases().SetNameOnly(true).SetAuthorizedDatabases(true))
	if err != nil {
		e.Fatal(err)
	}
	for _, db := range names {
		collections, err := e.client.Database(db).ListCollectionNames(e.Context(), bson.D{
			{Key: "$or", Value: bson.A{bson.D{{Key: "name", Value: primitive.Regex{Pattern: "", Options: "i"}}}}},
			{Key: "type", Value: bson.D{{Key: "$in", Value: bson.A{"collection", "timeseries"}}}},
		})
		if err != nil {
			e.Fatal(err)
		}
		for _, c := range collections {
			if !strings.HasPrefix(c, "system.") {
				found[db] = append(found[db], c)
			}
		}
	}
	return found
}

func (e exporter) aggregate(db, collection string, stages ...bson.D) []bson.M {
	e.Helper()
	var docs []bson.M
	cur, err := e.client.Database(db).Collection(collection).Aggregate(e.Context(), mongo.Pipeline(stages))
	if err == nil {
		err = cur.All(e.Context(), &docs)
	}
	if err != nil {
		e.Fatalf("%s.%s: %v: %v", db, collection, stages, err)
	}
	return docs
}

// scrape is all that the exporter tells of a server.
func (e exporter) scrape() metrics {
	e.Helper()
	m := metrics{}
	data, ok := e.must("admin", bson.D{{Key: "getDiagnosticData", Value: "1"}})["data"].(bson.M)
	if !ok {
		e.Fatal("getDiagnosticData has no data")
	}
	for section, prefix := range map[string]string{"serverStatus": "mongodb_ss", "systemMetrics": "mongodb_sys"} {
		doc, ok := data[section].(bson.M)
		if !ok {
			e.Fatalf("getDiagnosticData has no %s", section)
		}
		m.add(e.T, prefix, "", doc)
	}
	top, ok := e.must("admin", bson.D{{Key: "top", Value: "1"}})["totals"].(bson.M)
	if !ok {
		e.Fatal("top has no totals")
	}
	for ns, doc := range top {
		if doc, ok := doc.(bson.M); ok {
			m.add(e.T, "mongodb_top", " of "+ns, doc)
		}
	}
	for db, collections := range e.namespaces() {
		of := " of " + db
		m.add(e.T, "mongodb_dbstats", of, e.must(db, bson.D{{Key: "dbStats", Value: 1}, {Key: "scale", Value: 1}, {Key: "freeStorage", Value: 1}}))
		since := primitive.NewDateTimeFromTime(time.Now().Add(-time.Minute))
		slow, err := e.client.Database(db).Collection("system.profile").CountDocuments(e.Context(), bson.M{"ts": bson.M{"$gte": since}})
		if err != nil {
			e.Fatal(err)
		}
		m["mongodb_profile_slow_query_count"+of] = float64(slow)
		for _, c := range collections {
			for _, doc := range e.aggregate(db, c,
				bson.D{{Key: "$collStats", Value: bson.M{"latencyStats": bson.M{"histograms": false}, "storageStats": bson.M{"scale": 1}}}},
				bson.D{{Key: "$project", Value: bson.M{"storageStats.wiredTiger": 0, "storageStats.indexDetails": 0}}}) {
				m.add(e.T, "mongodb_collstats", of+"."+c, doc)
			}
			for _, index := range e.aggregate(db, c, bson.D{{Key: "$indexStats", Value: bson.M{}}}) {
				m.add(e.T, "mongodb_indexstats", fmt.Sprintf(" of %s.%s %v", db, c, index["name"]), bson.M{"accesses_ops": index["accesses"].(bson.M)["ops"]})
			}
		}
	}
	running := e.must("admin", bson.D{
		{Key: "currentOp", Value: true}, {Key: "active", Value: true}, {Key: "op", Value: bson.D{{Key: "$ne", Value: ""}}},
		{Key: "ns", Value: bson.D{{Key: "$ne", Value: ""}, {Key: "$not", Value: bson.D{{Key: "$regex", Value: "^admin.*|^local.*"}}}}},
		{Key: "microsecs_running", Value: bson.D{{Key: "$exists", Value: true}, {Key: "$gte", Value: time.Minute.Microseconds()}}},
	})
	if _, ok := running["inprog"].(bson.A); !ok {
		e.Errorf("currentOp: %v", running)
	}
	version := e.must("admin", bson.D{{Key: "getParameter", Value: 1}, {Key: "featureCompatibilityVersion", Value: 1}})
	if fcv, ok := version["featureCompatibilityVersion"].(bson.M); !ok || fcv["version"] != "8.0" {
		e.Errorf("featureCompatibilityVersion: %v", version)
	}
	return m
}

// TestExporter scrapes before and after documents have left by a TTL index: all that
// dashboards draw is there, metrics.ttl among it, and moves.
func TestExporter(t *testing.T) {
	db := database(t, "e2e_exporter")
	c := db.Collection("sessions")
	index := mongo.IndexModel{Keys: bson.D{{Key: "at", Value: 1}}, Options: options.Index().SetName("at").SetExpireAfterSeconds(0)}
	if _, err := c.Indexes().CreateOne(t.Context(), index); err != nil {
		t.Fatal(err)
	}
	client, err := mongo.Connect(t.Context(), options.Client().ApplyURI(uri(t)).SetDirect(true).SetAppName("mongodb_exporter"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(t.Context())
	e := exporter{t, client}
	e.connect()

	const due, kept = 20, 5
	docs := make([]any, 0, due+kept)
	for i := range due + kept {
		at := time.Now()
		if i >= due {
			at = at.Add(time.Hour)
		}
		docs = append(docs, bson.D{{Key: "at", Value: at}})
	}
	before := e.scrape()
	if _, err := c.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	left(t, c, kept)
	after := e.scrape()
	// What is counted at the end of a pass follows what it removed.
	for deadline := time.Now().Add(patience); after["mongodb_ss_metrics_ttl_subPasses"] == before["mongodb_ss_metrics_ttl_subPasses"] && time.Now().Before(deadline); {
		after = e.scrape()
	}

	const of = " of e2e_exporter"
	for name, least := range map[string]float64{
		"mongodb_ss_metrics_ttl_deletedDocuments": due, "mongodb_ss_metrics_ttl_passes": 0, "mongodb_ss_metrics_ttl_subPasses": 1,
		"mongodb_ss_opcounters{legacy_op_type=insert}": due + kept, "mongodb_ss_opcounters{legacy_op_type=command}": 1,
		"mongodb_ss_metrics_document{doc_op_type=inserted}": due + kept, "mongodb_ss_metrics_document{doc_op_type=deleted}": 0,
		"mongodb_ss_uptime": 0, "mongodb_ss_asserts{assert_type=user}": 0, "mongodb_ss_opLatencies_writes_ops": 1,
		"mongodb_ss_network_bytesIn": 1, "mongodb_ss_network_numRequests": 1, "mongodb_sys_cpu_user_ms": 0,
		"mongodb_dbstats_objects" + of: kept, "mongodb_collstats_storageStats_count" + of + ".sessions": kept,
		"mongodb_collstats_latencyStats_writes_ops" + of + ".sessions": 1, "mongodb_top_insert_count" + of + ".sessions": 1,
		"mongodb_indexstats_accesses_ops" + of + ".sessions at": 0,
	} {
		was, is := before[name]
		now, still := after[name]
		if !is || !still || now-was < least {
			t.Errorf("%s: was %v (%v), is %v (%v)", name, was, is, now, still)
		}
	}
	for _, name := range []string{
		"mongodb_ss_connections{conn_type=current}", "mongodb_ss_mem_resident", "mongodb_ss_metrics_cursor_open{csr_type=total}",
		"mongodb_ss_globalLock_currentQueue{count_type=total}", "mongodb_sys_memory_MemTotal_kb", "mongodb_dbstats_collections" + of,
		"mongodb_profile_slow_query_count" + of,
	} {
		if _, is := after[name]; !is {
			t.Errorf("no %s", name)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(slices.Sorted(maps.Keys(after)), "\n"))
	}
}
