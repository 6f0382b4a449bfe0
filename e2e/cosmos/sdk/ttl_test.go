package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// These tests are the list of what time to live means, in real seconds through
// the SDK. Each has a container of its own, and they run side by side. An item
// with n seconds is alive for n-1 to n seconds: tests leave two on either side.

var (
	ctx = context.Background()
	pk  = azcosmos.NewPartitionKeyString("a")
	// database is made by TestMain.
	database *azcosmos.DatabaseClient
)

func TestMain(m *testing.M) {
	cred, err := azcosmos.NewKeyCredential(os.Getenv("COSMOS_KEY"))
	if err != nil {
		panic(err)
	}
	client, err := azcosmos.NewClientWithKey(os.Getenv("COSMOS_ENDPOINT"), cred, nil)
	if err != nil {
		panic(err)
	}
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "gottl"}, nil); err != nil {
		panic(err)
	}
	if database, err = client.NewDatabase("gottl"); err != nil {
		panic(err)
	}
	code := m.Run()
	if _, err := database.Delete(ctx, nil); err != nil {
		panic(err)
	}
	os.Exit(code)
}

type container struct {
	*azcosmos.ContainerClient
	t     *testing.T
	props azcosmos.ContainerProperties
}

func newContainer(t *testing.T, defaultTTL *int32) *container {
	t.Helper()
	c := &container{t: t, props: azcosmos.ContainerProperties{
		ID: strings.ReplaceAll(t.Name(), "/", "-"), DefaultTimeToLive: defaultTTL, PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}},
	}}
	r, err := database.CreateContainer(ctx, c.props, nil)
	c.no(err)
	c.same(r.ContainerProperties.DefaultTimeToLive, defaultTTL)
	c.ContainerClient, err = database.NewContainer(c.props.ID)
	c.no(err)
	return c
}

func (c *container) no(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *container) same(got, want *int32) {
	c.t.Helper()
	if (got == nil) != (want == nil) || got != nil && *got != *want {
		c.t.Fatalf("defaultTtl is %v, want %v", got, want)
	}
}

// fails wants a status, and a part of the message.
func (c *container) fails(err error, status int, message string) {
	c.t.Helper()
	var e *azcore.ResponseError
	if !errors.As(err, &e) || e.StatusCode != status || !strings.Contains(e.Error(), message) {
		c.t.Fatalf("got %v, want %d %q", err, status, message)
	}
}

// item is an item's body; ttl is its JSON, "" for none.
func item(id, ttl string) []byte {
	if ttl != "" {
		ttl = `,"ttl":` + ttl
	}
	return fmt.Appendf(nil, `{"id":"%s","pk":"a"%s}`, id, ttl)
}

func (c *container) create(id, ttl string) {
	c.t.Helper()
	_, err := c.CreateItem(ctx, pk, item(id, ttl), nil)
	c.no(err)
}

// alive are the ids that are seen, in every way that agrees with the others.
func (c *container) alive(want ...string) {
	c.t.Helper()
	slices.Sort(want)
	for _, query := range []string{
		"SELECT VALUE c.id FROM c", "SELECT VALUE c.id FROM c WHERE c.id >= ''", "SELECT VALUE c.id FROM c JOIN (SELECT VALUE 1) AS one",
	} {
		for _, key := range []azcosmos.PartitionKey{pk, azcosmos.NewPartitionKey()} {
			if got := c.query(query, key); !slices.Equal(got, want) {
				c.t.Fatalf("%s: %v, want %v", query, got, want)
			}
		}
	}
	if got := c.query("SELECT VALUE COUNT(1) FROM c", pk); got[0] != fmt.Sprint(len(want)) {
		c.t.Fatalf("COUNT is %v, want %d", got, len(want))
	}
	for _, id := range want {
		_, err := c.ReadItem(ctx, pk, id, nil)
		c.no(err)
	}
}

func (c *container) query(text string, key azcosmos.PartitionKey) []string {
	c.t.Helper()
	rows := []string{}
	for p := c.NewQueryItemsPager(text, key, nil); p.More(); {
		r, err := p.NextPage(ctx)
		c.no(err)
		for _, row := range r.Items {
			rows = append(rows, strings.Trim(string(row), `"`))
		}
	}
	slices.Sort(rows)
	return rows
}

func (c *container) gone(ids ...string) {
	c.t.Helper()
	for _, id := range ids {
		_, err := c.ReadItem(ctx, pk, id, nil)
		c.fails(err, http.StatusNotFound, "")
	}
}

func (c *container) setTTL(ttl *int32) {
	c.t.Helper()
	c.props.DefaultTimeToLive = ttl
	r, err := c.Replace(ctx, c.props, nil)
	c.no(err)
	c.same(r.ContainerProperties.DefaultTimeToLive, ttl)
	read, err := c.Read(ctx, nil)
	c.no(err)
	c.same(read.ContainerProperties.DefaultTimeToLive, ttl)
}

func seconds(n float64) { time.Sleep(time.Duration(n * float64(time.Second))) }

func TestMatrix(t *testing.T) {
	for name, cell := range map[string]struct {
		ttl  *int32
		left []string
	}{
		"off": {nil, []string{"absent", "hundred", "never", "two"}},
		"on":  {to.Ptr[int32](-1), []string{"absent", "hundred", "never"}},
		"n":   {to.Ptr[int32](3), []string{"hundred", "never"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newContainer(t, cell.ttl)
			c.create("absent", "")
			c.create("never", "-1")
			c.create("two", "2")
			c.create("hundred", "100")
			seconds(5)
			c.alive(cell.left...)
		})
	}
}

func TestWrongTTL(t *testing.T) {
	t.Parallel()
	c := newContainer(t, to.Ptr[int32](100))
	c.create("1", "")
	for _, ttl := range []string{"0", "-10", "null", `"10"`, "1.5", "2147483648", "true"} {
		_, err := c.CreateItem(ctx, pk, item("2", ttl), nil)
		c.fails(err, 400, "The input ttl")
		_, err = c.UpsertItem(ctx, pk, item("2", ttl), nil)
		c.fails(err, 400, "The input ttl")
		_, err = c.ReplaceItem(ctx, pk, "1", item("1", ttl), nil)
		c.fails(err, 400, "The input ttl")
		batch := c.NewTransactionalBatch(pk)
		batch.CreateItem(item("3", ""), nil)
		batch.CreateItem(item("2", ttl), nil)
		r, err := c.ExecuteTransactionalBatch(ctx, batch, nil)
		c.no(err)
		if r.Success || r.OperationResults[0].StatusCode != 424 || r.OperationResults[1].StatusCode != 400 {
			t.Fatalf("ttl %s in a batch: %+v", ttl, r.OperationResults)
		}
	}
	var patch azcosmos.PatchOperations
	patch.AppendSet("/ttl", 0)
	_, err := c.PatchItem(ctx, pk, "1", patch, nil)
	c.fails(err, 400, "The input ttl")
	c.create("most", "2147483647")
	c.alive("1", "most")
	for _, ttl := range []int32{0, -2} {
		_, err := database.CreateContainer(ctx, azcosmos.ContainerProperties{
			ID: "wrong", DefaultTimeToLive: to.Ptr(ttl), PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Paths: []string{"/pk"}},
		}, nil)
		c.fails(err, 400, "ttl")
	}
}

func TestUninterpretedWhileOff(t *testing.T) {
	t.Parallel()
	c := newContainer(t, nil)
	c.create("text", `"1h"`)
	c.create("one", "1")
	seconds(3)
	c.alive("one", "text")
	// Turned on, what was stored counts: a ttl that is none as absent.
	c.setTTL(to.Ptr[int32](-1))
	c.alive("text")
	c.gone("one")
}

func TestReplaceDefinition(t *testing.T) {
	t.Parallel()
	c := newContainer(t, nil)
	c.create("1", "")
	c.create("own", "100")
	seconds(4)
	c.setTTL(to.Ptr[int32](100))
	c.alive("1", "own")
	c.setTTL(to.Ptr[int32](2))
	c.alive("own")
	c.gone("1")
	c.setTTL(to.Ptr[int32](100))
	c.setTTL(nil)
	c.create("2", "1")
	seconds(3)
	_, err := c.ReadItem(ctx, pk, "2", nil)
	c.no(err)
	c.setTTL(to.Ptr[int32](-1))
	c.gone("2")
}

func TestIndexingNone(t *testing.T) {
	t.Parallel()
	c := newContainer(t, to.Ptr[int32](100))
	c.props.IndexingPolicy = &azcosmos.IndexingPolicy{IndexingMode: azcosmos.IndexingModeNone}
	_, err := c.Replace(ctx, c.props, nil)
	c.fails(err, 400, "Indexing mode value cannot be 'none'")
	c.props.DefaultTimeToLive = nil
	_, err = c.Replace(ctx, c.props, nil)
	c.no(err)
	c.props.DefaultTimeToLive = to.Ptr[int32](100)
	_, err = c.Replace(ctx, c.props, nil)
	c.fails(err, 400, "Indexing mode value cannot be 'none'")
}

func TestEveryWriteRestartsTheClock(t *testing.T) {
	t.Parallel()
	c := newContainer(t, to.Ptr[int32](5))
	for _, id := range []string{"replaced", "upserted", "patched", "batched", "read"} {
		c.create(id, "")
	}
	seconds(3)
	_, err := c.ReplaceItem(ctx, pk, "replaced", item("replaced", ""), nil)
	c.no(err)
	_, err = c.UpsertItem(ctx, pk, item("upserted", ""), nil)
	c.no(err)
	var patch azcosmos.PatchOperations
	patch.AppendSet("/x", 1)
	_, err = c.PatchItem(ctx, pk, "patched", patch, nil)
	c.no(err)
	batch := c.NewTransactionalBatch(pk)
	batch.ReplaceItem("batched", item("batched", ""), nil)
	r, err := c.ExecuteTransactionalBatch(ctx, batch, nil)
	c.no(err)
	if !r.Success {
		t.Fatal(r.OperationResults)
	}
	_, err = c.ReadItem(ctx, pk, "read", nil)
	c.no(err)
	seconds(3)
	c.alive("batched", "patched", "replaced", "upserted")
	seconds(4)
	c.alive()
}

func TestPatchOfTTL(t *testing.T) {
	t.Parallel()
	c := newContainer(t, to.Ptr[int32](4))
	for _, id := range []string{"never", "short", "default"} {
		c.create(id, "100")
	}
	set := func(id string, edit func(*azcosmos.PatchOperations)) {
		var p azcosmos.PatchOperations
		edit(&p)
		_, err := c.PatchItem(ctx, pk, id, p, nil)
		c.no(err)
	}
	set("never", func(p *azcosmos.PatchOperations) { p.AppendSet("/ttl", -1) })
	set("short", func(p *azcosmos.PatchOperations) { p.AppendReplace("/ttl", 1) })
	set("default", func(p *azcosmos.PatchOperations) { p.AppendRemove("/ttl") })
	seconds(1.5)
	c.gone("short")
	c.alive("default", "never")
	seconds(4)
	c.alive("never")
}

func TestAfterExpiry(t *testing.T) {
	t.Parallel()
	c := newContainer(t, to.Ptr[int32](-1))
	first := map[string]azcore.ETag{}
	for _, id := range []string{"created", "upserted", "matched", "left"} {
		r, err := c.CreateItem(ctx, pk, item(id, "1"), nil)
		c.no(err)
		first[id] = r.ETag
	}
	seconds(2)
	c.alive()
	_, err := c.ReplaceItem(ctx, pk, "left", item("left", ""), nil)
	c.fails(err, 404, "")
	var patch azcosmos.PatchOperations
	patch.AppendSet("/x", 1)
	_, err = c.PatchItem(ctx, pk, "left", patch, nil)
	c.fails(err, 404, "")
	_, err = c.DeleteItem(ctx, pk, "left", nil)
	c.fails(err, 404, "")
	created, err := c.CreateItem(ctx, pk, item("created", ""), &azcosmos.ItemOptions{EnableContentResponseOnWrite: true})
	c.no(err)
	if created.RawResponse.StatusCode != 201 || created.ETag == first["created"] {
		t.Fatalf("created again: %d, %s", created.RawResponse.StatusCode, created.ETag)
	}
	upserted, err := c.UpsertItem(ctx, pk, item("upserted", ""), nil)
	c.no(err)
	if upserted.RawResponse.StatusCode != 201 {
		t.Fatalf("an upsert of an expired item: %d", upserted.RawResponse.StatusCode)
	}
	// The dead item's etag is not compared with.
	_, err = c.UpsertItem(ctx, pk, item("matched", ""), &azcosmos.ItemOptions{IfMatchEtag: to.Ptr(first["matched"])})
	c.no(err)
	batch := c.NewTransactionalBatch(pk)
	batch.CreateItem(item("other", ""), nil)
	batch.ReadItem("left", nil)
	r, err := c.ExecuteTransactionalBatch(ctx, batch, nil)
	c.no(err)
	if r.Success || r.OperationResults[0].StatusCode != 424 || r.OperationResults[1].StatusCode != 404 {
		t.Fatalf("a batch that reads an expired item: %+v", r.OperationResults)
	}
	c.alive("created", "matched", "upserted")
}

func TestPagesSpanAnExpiry(t *testing.T) {
	t.Parallel()
	c := newContainer(t, to.Ptr[int32](-1))
	for i := range 20 {
		ttl := ""
		if i%2 == 1 {
			ttl = "3"
		}
		c.create(fmt.Sprintf("%02d", i), ttl)
	}
	var seen []string
	p := c.NewQueryItemsPager("SELECT VALUE c.id FROM c", pk, &azcosmos.QueryOptions{PageSizeHint: 4})
	for page := 0; p.More(); page++ {
		r, err := p.NextPage(ctx)
		c.no(err)
		for _, row := range r.Items {
			var id string
			c.no(json.Unmarshal(row, &id))
			seen = append(seen, id)
		}
		if page == 0 {
			seconds(5)
		}
	}
	want := []string{"00", "01", "02", "03", "04", "06", "08", "10", "12", "14", "16", "18"}
	if !slices.Equal(seen, want) {
		t.Fatalf("seen %v, want %v", seen, want)
	}
}
