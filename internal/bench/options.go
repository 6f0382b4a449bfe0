package bench

import (
	"fmt"
	"io"
	"time"
)

// Options say what to measure.
type Options struct {
	// Binary is the mayfly to run, and Self this program, for the other sides of
	// Wire and Hollow.
	Binary, Self string
	// Rows are names of rows with commas between; "" for all.
	Rows string
	// Clients are the numbers of clients, each of which a row runs with.
	Clients []int
	// Duration is how long a row runs on one system.
	Duration time.Duration
	// Documents is how many documents the rows work on.
	Documents int64
	// ExpiryDocuments is how many documents the row expiry removes.
	ExpiryDocuments int64
	// AnalysisDocuments is how many orders the rows of analysis ask about.
	AnalysisDocuments int64
	// Items is how many items the rows of the Cosmos DB endpoint work on.
	Items int64
	// CosmosLoad is the program that puts load on that endpoint.
	CosmosLoad string
	// ExpiryReads is how many reads a second run during the row expiry.
	ExpiryReads int
	// LiveDocuments is how many documents the row expiryLive begins with: half of
	// them go.
	LiveDocuments int64
	// RelayoutDocuments is how many documents the row relayout moves to another layout.
	RelayoutDocuments int64
	// PointDocuments is how many documents the large collection of the row points has.
	PointDocuments int64
	// ShapeDocuments is how many the rows of shapes of expiry begin with.
	ShapeDocuments int64
	// ShardedDocuments is how many documents the rows of a cluster move and spread, and
	// how many chunks the row shardedTarget has.
	ShardedDocuments int64
	// SeriesReadings is how many readings the rows of time series have, and
	// Readings the file of the real ones that they are made of.
	SeriesReadings int64
	Readings       string
	// CacheGB is the cache of the server and of Pebble.
	CacheGB float64
	// SetParameters are further parameters of the server, name=value.
	SetParameters []string
	// Postgres, Pebble, Wire, Hollow and Redis say what to measure in addition to
	// the server.
	Postgres, Pebble, Wire, Hollow, Redis bool
	// ProfileDir is where to put the server's processor profiles, a file for each
	// row; "" for none.
	ProfileDir string
	// Dir is where the systems have their data, "" for the system's place for
	// temporary files. It is empty again afterwards.
	Dir string
	Out io.Writer
}

// Default is what `mayfly bench` measures when nothing is said.
func Default() Options {
	return Options{
		Clients: []int{1, 8}, Duration: time.Second, Documents: 100_000, AnalysisDocuments: 1_000_000, Items: 10_000,
		ExpiryDocuments: 1_000_000, ExpiryReads: 1000, RelayoutDocuments: 1_000_000, LiveDocuments: 10_000_000, ShapeDocuments: 1_000_000, PointDocuments: 1_000_000, ShardedDocuments: 1_000_000, SeriesReadings: 10_000_000, CacheGB: 1,
		Postgres: true, Pebble: true, Wire: true, Hollow: true, Redis: true,
	}
}

// Small makes all sizes such that a run shows in two minutes whether the rows
// work; its figures say little.
func (o *Options) Small() {
	o.Duration, o.Documents, o.ExpiryDocuments = 200*time.Millisecond, 10_000, 50_000
	o.AnalysisDocuments, o.Items, o.LiveDocuments, o.SeriesReadings, o.PointDocuments = 50_000, 1_000, 50_000, 200_000, 50_000
	o.ShapeDocuments, o.RelayoutDocuments, o.ShardedDocuments = 50_000, 50_000, 20_000
}

func (o *Options) check() error {
	switch {
	case o.Documents < 2*rangeDocuments:
		return fmt.Errorf("the rows need at least %d documents", 2*rangeDocuments)
	case o.ExpiryDocuments < 1 || o.ExpiryReads < 1:
		return fmt.Errorf("the row expiry needs documents and reads")
	case o.Items < itemsPerPartition || o.Items%itemsPerPartition != 0:
		return fmt.Errorf("the rows of the Cosmos DB endpoint need a number of items that %d divides", itemsPerPartition)
	case o.AnalysisDocuments < lastOrders:
		return fmt.Errorf("the rows of analysis need at least %d orders", lastOrders)
	case o.RelayoutDocuments < 2000:
		return fmt.Errorf("the row %s needs 2000 documents", relayoutRow)
	case o.ShapeDocuments < 2:
		return fmt.Errorf("the rows of shapes of expiry need documents")
	case o.LiveDocuments < 2:
		return fmt.Errorf("the row %s needs documents", liveRow)
	case o.ShardedDocuments < 1000:
		return fmt.Errorf("the rows of a cluster need at least 1000 documents")
	case o.PointDocuments < fewPoints:
		return fmt.Errorf("the row %s needs at least %d documents", pointsRow, fewPoints)
	case o.SeriesReadings < 10*sensors || o.SeriesReadings%sensors != 0:
		return fmt.Errorf("the row %s needs at least 10 readings of each of %d sensors, as many of each", seriesRow, sensors)
	case o.Duration <= 0:
		return fmt.Errorf("the duration of a row must be above zero")
	}
	for _, n := range o.Clients {
		if n < 1 || n > maxClients {
			return fmt.Errorf("a row runs with 1 to %d clients", maxClients)
		}
	}
	return nil
}

// maxClients bounds the clients of a row.
const maxClients = 256
