package server

import "testing"

// What only members of sets use can be given at start, wherever it is.
func TestCheckParameter(t *testing.T) {
	for _, c := range []struct {
		name, value string
		ok          bool
	}{
		{"minSnapshotHistoryWindowInSeconds", "10", true}, {"initialSyncMaxMBPerSecond", "10", true}, {"maxAcceptableLogicalClockDriftSecs", "10", true},
		{"maxOpenChangeStreams", "10", true}, {"changeStreamAnswersPerSecond", "10", true}, {"changeStreamAnswersPerSecond", "0", false},
		{"auditAuthorizationSuccess", "true", true},
		{"noSuchParameter", "10", false},
	} {
		if err := CheckParameter(c.name, c.value); (err == nil) != c.ok {
			t.Errorf("%s=%s: %v", c.name, c.value, err)
		}
	}
	if err := CheckRouterParameter("auditAuthorizationSuccess", "true"); err != nil {
		t.Error(err)
	}
}
