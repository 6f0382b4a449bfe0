package main

import (
	"os"
	"strings"
	"testing"
)

// TestPlaces holds that what looks like an address and is none of a bucket is not made as a
// directory, and that its password is not told.
func TestPlaces(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, place := range []string{"gs://bucket/prefix", "S3://bucket", "https://id:secret@store/bucket", "file:///backups"} {
		_, err := new(backupOptions).repository(t.Context(), place, true)
		if err == nil || !strings.Contains(err.Error(), "s3://BUCKET/PREFIX") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", place, err)
		}
	}
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Errorf("%v was made: %v", made, err)
	}
}
