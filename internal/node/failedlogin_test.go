package node

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdg-go/scram"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// TestFailedLoginsWait holds that logins wait after some that failed, from the same
// address for the same user only, and that each leaves a line in the log.
func TestFailedLoginsWait(t *testing.T) {
	n, client := withData(t)
	dispatch(t, n, client, "admin", `{"createUser": "ann", "pwd": "p", "roles": []}`, true)
	var log bytes.Buffer
	n.Log = slog.New(slog.NewTextHandler(&log, nil))
	synctest.Test(t, func(t *testing.T) {
		for i, c := range []struct {
			host, user, password string
			code                 int64
			wait                 time.Duration // milliseconds
		}{
			{"10.0.0.1", "ann", "no", 18, 0}, {"10.0.0.1", "ann", "no", 18, 100}, {"10.0.0.1", "ann", "no", 18, 200},
			{"10.0.0.2", "ann", "p", 0, 0}, {"10.0.0.1", "bob", "no", 18, 0}, {"10.0.0.1", "bob", "no", 18, 100},
			{"10.0.0.1", "ann", "p", 0, 400}, {"10.0.0.1", "ann", "no", 18, 0},
		} {
			start := time.Now()
			who := &command.Client{ConnectionID: int64(i + 10), Remote: fmt.Sprintf("%s:%d", c.host, 4000+i)}
			code := logIn(t, func(text string) bson.Doc { return dispatch(t, n, who, "admin", text, false).Body }, c.user, c.password)
			if got := time.Since(start); code != c.code || got != c.wait*time.Millisecond {
				t.Errorf("login %d: code %d after %s", i, code, got)
			}
		}
	})
	for text, want := range map[string]int{"id=5286307": 6, "user=bob": 2, "result=11": 2, "result=18": 4, "id=5286306": 2, "result=0": 2} {
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("%d times %q in %s", got, text, log.String())
		}
	}
}

// logIn authenticates the client that run says commands for, and returns the code of the error, or 0.
func logIn(t *testing.T, run func(text string) bson.Doc, user, password string) int64 {
	t.Helper()
	c, err := scram.SHA256.NewClient(user, password, "")
	if err != nil {
		t.Fatal(err)
	}
	conversation, said := c.NewConversation(), ""
	ask := `{"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": "%s"}`
	for {
		message := "" // once more, when all is said
		if !conversation.Done() {
			if message, err = conversation.Step(said); err != nil {
				t.Fatal(err)
			}
		}
		reply := run(fmt.Sprintf(ask, base64.StdEncoding.EncodeToString([]byte(message))))
		if code := bson.ClampToInt64(reply.Lookup("code")); code != 0 || reply.Lookup("done").Truthy() {
			return code
		}
		raw, err := base64.StdEncoding.DecodeString(reply.Lookup("payload").Str())
		if err != nil {
			t.Fatal(err)
		}
		said, ask = string(raw), `{"saslContinue": 1, "conversationId": 1, "payload": "%s"}`
	}
}
