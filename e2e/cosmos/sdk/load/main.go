// Command load measures one operation of the Cosmos DB endpoint with azcosmos,
// the vendor's Go SDK, for `mayfly bench`: in a program of its own, because the
// SDK is no dependency of the server. It prints one line of JSON:
//
//	{"ops":…,"elapsed":…,"p50":…,"p99":…}    // times in nanoseconds
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

const (
	database  = "bench"
	container = "items"
	// perPartition is how many items a logical partition has.
	perPartition = 20
	// padBytes fills an item up to about 300 bytes.
	padBytes = 200
)

type item struct {
	ID  string `json:"id"`
	PK  string `json:"pk"`
	N   int    `json:"n"`
	Pad string `json:"pad"`
}

var pad = strings.Repeat("x", padBytes)

func newItem(id int) (azcosmos.PartitionKey, item) {
	pk := "p" + strconv.Itoa(id/perPartition)
	return azcosmos.NewPartitionKeyString(pk), item{ID: "i" + strconv.Itoa(id), PK: pk, N: id, Pad: pad}
}

type load struct {
	c     *azcosmos.ContainerClient
	items int
	base  int // where the ids of new items begin
}

func main() {
	endpoint := flag.String("endpoint", "", "URL of the endpoint")
	key := flag.String("key", "", "the account's key")
	operation := flag.String("op", "", "fill, read, create, upsert or query")
	items := flag.Int("items", 0, "how many items the container has")
	base := flag.Int("base", 0, "where the ids of new items begin")
	clients := flag.Int("clients", 8, "how many clients work at the same time")
	duration := flag.Duration("duration", time.Second, "for how long")
	flag.Parse()
	if err := run(*endpoint, *key, *operation, *items, *base, *clients, *duration); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(endpoint, key, operation string, items, base, clients int, d time.Duration) error {
	ctx := context.Background()
	credential, err := azcosmos.NewKeyCredential(key)
	if err != nil {
		return err
	}
	client, err := azcosmos.NewClientWithKey(endpoint, credential, nil)
	if err != nil {
		return err
	}
	c, err := client.NewContainer(database, container)
	if err != nil {
		return err
	}
	l := &load{c, items, base}
	if operation == "fill" {
		return l.fill(ctx, client, clients)
	}
	do, ok := map[string]func(context.Context, int) error{"read": l.read, "create": l.create, "upsert": l.upsert, "query": l.query}[operation]
	if !ok {
		return fmt.Errorf("there is no operation %q", operation)
	}
	took, elapsed, err := drive(ctx, clients, d, do)
	if err != nil {
		return err
	}
	if len(took) == 0 {
		return errors.New("no operation ended")
	}
	slices.Sort(took)
	return json.NewEncoder(os.Stdout).Encode(map[string]int64{
		"ops": int64(len(took)), "elapsed": int64(elapsed), "p50": int64(took[len(took)/2]), "p99": int64(took[len(took)*99/100]),
	})
}

func (l *load) fill(ctx context.Context, client *azcosmos.Client, clients int) error {
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: database}, nil); err != nil {
		return err
	}
	db, err := client.NewDatabase(database)
	if err != nil {
		return err
	}
	properties := azcosmos.ContainerProperties{ID: container, PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}}}
	if _, err := db.CreateContainer(ctx, properties, nil); err != nil {
		return err
	}
	return parallel(clients, func(client int) error {
		for id := client; id < l.items; id += clients {
			if err := l.add(ctx, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// read reads an item of those that are there; n is any number.
func (l *load) read(ctx context.Context, n int) error {
	pk, it := newItem(n * step % l.items)
	r, err := l.c.ReadItem(ctx, pk, it.ID, nil)
	if err != nil {
		return err
	}
	var found item
	if err := json.Unmarshal(r.Value, &found); err != nil || found.N != it.N {
		return fmt.Errorf("item %s: %s %w", it.ID, r.Value, err)
	}
	return nil
}

// create adds an item that is not there yet.
func (l *load) create(ctx context.Context, n int) error { return l.add(ctx, l.base+n) }

func (l *load) add(ctx context.Context, id int) error {
	pk, it := newItem(id)
	b, err := json.Marshal(it)
	if err == nil {
		_, err = l.c.CreateItem(ctx, pk, b, nil)
	}
	return err
}

// upsert replaces an item of those that are there.
func (l *load) upsert(ctx context.Context, n int) error {
	pk, it := newItem(n * step % l.items)
	b, err := json.Marshal(it)
	if err == nil {
		_, err = l.c.UpsertItem(ctx, pk, b, nil)
	}
	return err
}

// query reads a partition.
func (l *load) query(ctx context.Context, n int) error {
	pk, _ := newItem(n * step % l.items)
	pager := l.c.NewQueryItemsPager("SELECT * FROM c WHERE c.n >= 0", pk, nil)
	found := 0
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return err
		}
		found += len(page.Items)
	}
	if found != perPartition {
		return fmt.Errorf("a partition of %d items", found)
	}
	return nil
}

// step scatters the numbers that operations get over the items.
const step = 7919

// drive runs do for d with so many clients. Each operation gets the next number:
// a new item's place, or, scattered, that of one that is there.
func drive(ctx context.Context, clients int, d time.Duration, do func(context.Context, int) error) ([]time.Duration, time.Duration, error) {
	each := make([][]time.Duration, clients)
	var number atomic.Int64
	begun := time.Now()
	err := parallel(clients, func(client int) error {
		for at := time.Now(); at.Sub(begun) < d; {
			if err := do(ctx, int(number.Add(1)-1)); err != nil {
				return err
			}
			now := time.Now()
			each[client] = append(each[client], now.Sub(at))
			at = now
		}
		return nil
	})
	return slices.Concat(each...), time.Since(begun), err
}

func parallel(clients int, f func(client int) error) error {
	errs := make([]error, clients)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}
