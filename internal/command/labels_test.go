package command

import (
	"slices"
	"testing"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TestStreamLabels holds by which labels drivers know whether to resume a change stream: they
// are on errors of the aggregate that opens one and of a getMore that reads one, and on no
// other operation's.
func TestStreamLabels(t *testing.T) {
	pipeline := func(stage string) bson.Doc {
		return bson.MustParse(`{aggregate: "c", pipeline: [{` + stage + `: {}}, {$match: {}}], cursor: {}}`)
	}
	more := bson.MustParse(`{getMore: 1, collection: "c"}`)
	getMore := &Command{Name: "getMore", Kind: KindGetMore}
	stream, other := pipeline("$changeStream"), pipeline("$project")
	for name, c := range map[string]struct {
		op      *Op
		streams bool
	}{
		"an aggregate that opens one":      {&Op{Command: &Command{Name: "aggregate"}, Body: stream}, true},
		"another aggregate":                {&Op{Command: &Command{Name: "aggregate"}, Body: other}, false},
		"a getMore of one":                 {&Op{Command: getMore, Body: more, Stats: Stats{OriginatingCommand: stream}}, true},
		"a getMore of another":             {&Op{Command: getMore, Body: more, Stats: Stats{OriginatingCommand: other}}, false},
		"a getMore that has no cursor yet": {&Op{Command: getMore, Body: more}, false},
		"a find":                           {&Op{Command: &Command{Name: "find"}, Body: bson.MustParse(`{find: "c"}`)}, false},
	} {
		c.op.Client = new(Client)
		for code, want := range map[mongoerr.Code]string{
			mongoerr.HostUnreachable: labelResumable, mongoerr.HostNotFound: labelResumable, mongoerr.NetworkTimeout: labelResumable, mongoerr.ShutdownInProgress: labelResumable,
			mongoerr.PrimarySteppedDown: labelResumable, mongoerr.ExceededTimeLimit: labelResumable, mongoerr.SocketException: labelResumable, mongoerr.NotWritablePrimary: labelResumable,
			mongoerr.InterruptedAtShutdown: labelResumable, mongoerr.InterruptedDueToReplStateChange: labelResumable, mongoerr.NotPrimaryNoSecondaryOk: labelResumable,
			mongoerr.NotPrimaryOrSecondary: labelResumable, mongoerr.StaleConfig: labelResumable, mongoerr.RetryChangeStream: labelResumable, mongoerr.FailedToSatisfyReadPreference: labelResumable,
			mongoerr.ChangeStreamHistoryLost: labelNotResumable, mongoerr.ChangeStreamFatalError: labelNotResumable,
			mongoerr.BadValue: "", mongoerr.CursorNotFound: "", mongoerr.BSONObjectTooLarge: "", mongoerr.Interrupted: "",
		} {
			if want == labelResumable && !c.streams {
				want = ""
			}
			got := c.op.labels(mongoerr.New(code, "an error"))
			if want == "" && len(got) > 0 || want != "" && !slices.Equal(got, []string{want}) {
				t.Errorf("%s with %d: %v, not %q", name, code, got, want)
			}
		}
	}
}
