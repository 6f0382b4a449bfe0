package router

import (
	"testing"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
)

func newTestScope(t *testing.T) *scope {
	s, err := newScope(&command.Op{Start: time.Now(), Dispatcher: &command.Dispatcher{Wall: catalog.NewClock(nil)}}, &route{}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustJSON(t *testing.T, text string) bson.Doc {
	t.Helper()
	d, err := bson.ParseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
