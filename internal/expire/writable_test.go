package expire

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestNotWritable: a member that takes no writes removes nothing and packs nothing,
// one that does no more stops in the middle, and one that does again goes on.
func TestNotWritable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.close()
		var refused atomic.Pointer[mongoerr.Error]
		w.d.Writable = func() error {
			if err := refused.Load(); err != nil {
				return err
			}
			return nil
		}
		secondary := mongoerr.New(mongoerr.NotWritablePrimary, "not primary")
		w.must(parse(t, `{createIndexes: "c", indexes: [{key: {at: 1}, name: "at", expireAfterSeconds: 0}]}`))
		w.must(parse(t, `{create: "r", timeseries: {timeField: "t"}}`))
		w.must(parse(t, `{insert: "r", documents: [{t: {$date: "1999-01-01T00:00:00Z"}}]}`))
		w.insertAt(0, 500, time.Now().UnixMilli())
		refused.Store(secondary)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if n, open := w.count("c"), w.readings().BucketStats().Open; n != 500 || open != 1 {
			t.Errorf("%d documents and %d open sources are left", n, open)
		}
		report := w.must(parse(t, `{aggregate: "c", pipeline: [{$expiryStats: {}}], cursor: {}}`)).String()
		if !strings.Contains(report, "this member takes no writes: not primary") {
			t.Errorf("the report is %s", report)
		}
		refused.Store(nil)
		w.takes.Store(int64(time.Second)) // one commit in the time that it goes on
		time.Sleep(61 * time.Second)
		refused.Store(secondary)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		left := w.count("c")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := w.count("c"); n != left {
			t.Errorf("%d of %d documents are left", n, left)
		}
		refused.Store(nil)
		w.takes.Store(0)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n, open := w.count("c"), w.readings().BucketStats().Open; n != 0 || open != 0 {
			t.Errorf("%d documents and %d open sources are left", n, open)
		}
	})
}
