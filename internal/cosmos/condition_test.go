package cosmos

import (
	"net/http"
	"testing"
	"testing/synctest"
)

// TestDateBinOfAnySize: a size that no step can hold is undefined, in a query and in a patch's
// condition, after which its item and its container can be changed.
func TestDateBinOfAnySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _ := newObserved(t)
		defer a.close()
		for _, bin := range []string{"'year', 4611686018427387904", "'second', 144115188075855872", "'week', 9007199254740992", "'ns', 9223372036854774784"} {
			body := `{"condition":"from c where DateTimeBin('2020-01-01',` + bin + `) != ''","operations":[{"op":"set","path":"/a","value":1}]}`
			a.must(http.StatusPreconditionFailed, "PATCH", "/dbs/d/colls/c/docs/1", body, inA)
		}
		a.must(http.StatusOK, "PUT", "/dbs/d/colls/c/docs/1", `{"id":"1","pk":"a"}`, inA)
		a.must(http.StatusOK, "PUT", "/dbs/d/colls/c", `{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":60}`, nil)
	})
}
