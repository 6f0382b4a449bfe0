package process

import (
	"context"
	"time"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// TLS is what a process has of TLS.
type TLS interface {
	// Reload reads the certificates again. After an error everything is as it was.
	Reload() error
	// Certificate describes that for clients: the name of its holder, and when it ends.
	Certificate() (subject string, ends time.Time)
}

// rotateCertificates reads the files with certificates and keys again. Connections that are
// open stay as they are. Without TLS there is nothing to do. Errors: 140 (as mongod names all
// of a wrong configuration of TLS), and nothing has changed.
func (p *Process) rotateCertificates() *command.Command {
	return &command.Command{
		Name: "rotateCertificates", Flags: command.AdminOnly,
		Fields: command.NewFields("rotateCertificates", command.String("message")),
		Help:   "Rotates the server's TLS certificates", Run: p.runRotateCertificates,
	}
}

// logRotated is the id of mongod's line.
const logRotated = 4756300

func (p *Process) runRotateCertificates(ctx context.Context, op *command.Op) error {
	if p.TLS == nil {
		return nil
	}
	if err := p.TLS.Reload(); err != nil {
		return mongoerr.New(mongoerr.InvalidSSLConfiguration, "%v", err)
	}
	op.Dispatcher.Log.InfoContext(ctx, "Certificates were read again", "id", logRotated, "message", op.Args.Str("message"))
	return nil
}

// appendSecurity writes the section security.
func (p *Process) appendSecurity(b *bson.Builder) {
	if p.TLS == nil {
		return
	}
	subject, ends := p.TLS.Certificate()
	b.String("SSLServerSubjectName", subject).Bool("SSLServerHasCertificateAuthority", true).Date("SSLServerCertificateExpirationDate", ends.UnixMilli())
}
