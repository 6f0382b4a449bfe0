package command

import (
	"testing"
	"time"
)

// TestTailBuckets holds that buckets follow each other, and that each duration
// is in the one whose bound is the last at or below it.
func TestTailBuckets(t *testing.T) {
	for i := range TailBuckets - 1 {
		if lo, hi := TailBound(i), TailBound(i+1); lo >= hi || i > 8 && hi-lo > lo/8 {
			t.Fatalf("bucket %d: %d to %d", i, lo, hi)
		}
		for _, us := range []int64{TailBound(i), TailBound(i+1) - 1} {
			if got := tailBucket(time.Duration(us) * time.Microsecond); got != i {
				t.Fatalf("%d µs are in bucket %d, not %d", us, got, i)
			}
		}
	}
	if got := tailBucket(1 << 62); got != TailBuckets-1 {
		t.Fatalf("the longest is in bucket %d", got)
	}
}
