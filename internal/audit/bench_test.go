package audit

import (
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/mayflydb/mayfly/internal/auth"
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
)

// onDisk is an output to a file.
type onDisk struct{ *os.File }

func (o onDisk) Write(event []byte) error {
	_, err := o.File.Write(event)
	return err
}
func (onDisk) Rotate() error { return nil }

// BenchmarkChecked tells of a command that was allowed.
func BenchmarkChecked(b *testing.B) {
	for name, open := range map[string]func() Output{
		"file": func() Output {
			f, err := os.OpenFile(b.TempDir()+"/audit", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				b.Fatal(err)
			}
			return onDisk{f}
		},
		"nowhere": func() Output { return nowhere{} },
	} {
		b.Run(name, func(b *testing.B) {
			l, err := New(Options{Output: open(), Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			d := command.NewDispatcher(slog.New(slog.DiscardHandler))
			l.Register(d.Params)
			if err := d.Params.SetAtStartup("auditAuthorizationSuccess", "true"); err != nil {
				b.Fatal(err)
			}
			c := &command.Client{Remote: "127.0.0.1:54321", Local: "127.0.0.1:27017"}
			c.SetPrincipal(&auth.Principal{User: &auth.User{Name: auth.UserName{User: "root", DB: "admin"}}, Roles: []auth.RoleName{{Role: "root", DB: "admin"}}})
			body := new(bson.Builder).String("find", "documents").OpenDoc("filter").Int64("_id", 12345).Close().Int64("limit", 1).Bool("singleBatch", true).
				OpenDoc("lsid").Binary("id", 4, make([]byte, 16)).Close().String("$db", "bench").Finish()
			op := &command.Op{Client: c, Dispatcher: d, DB: "bench", NS: "bench.documents", Body: body, Command: &command.Command{Name: "find", Run: func(context.Context, *command.Op) error { return nil }}}
			b.ReportAllocs()
			for b.Loop() {
				if err := l.Checked(op, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type nowhere struct{}

func (nowhere) Write([]byte) error { return nil }
func (nowhere) Rotate() error      { return nil }
func (nowhere) Close() error       { return nil }
