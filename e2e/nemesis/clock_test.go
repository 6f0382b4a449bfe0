package nemesis

import (
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/testkit"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// TestSetClock holds that setClock sets the clock of a server, there and back, and not
// the time that goes by for it.
func TestSetClock(t *testing.T) {
	if !clocksJump {
		return
	}
	s := testkit.Start(t)
	now := func() (st struct {
		LocalTime time.Time `bson:"localTime"`
		Uptime    int64     `bson:"uptimeMillis"`
	}) {
		if err := s.Direct().Database("admin").RunCommand(t.Context(), bson.D{{Key: "serverStatus", Value: 1}}).Decode(&st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	for _, off := range []time.Duration{time.Hour, -48 * time.Hour, 0} {
		if err := setClock(s.PID(), off); err != nil {
			t.Fatal(err)
		}
		st := now()
		if d := time.Until(st.LocalTime) - off; d.Abs() > time.Minute {
			t.Errorf("%v off: the clock is %v off that", off, d)
		}
		if up := time.Duration(st.Uptime) * time.Millisecond; up < 0 || up > 10*time.Minute {
			t.Errorf("%v off: up for %v", off, up)
		}
	}
}
