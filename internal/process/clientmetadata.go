package process

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Bounds of the document "client" of the first hello. (Specification: MongoDB
// Handshake.)
const (
	maxClientMetadata = 512
	maxAppName        = 128
)

// ClientMetadata stores the client metadata of the first hello of a connection.
func ClientMetadata(op *command.Op) error {
	v := op.Args.Value("client")
	if v.IsMissing() {
		return nil
	}
	if v.Type != bson.TypeDocument {
		return mongoerr.New(mongoerr.TypeMismatch, "The 'client' field is required to be a BSON document in the client metadata document")
	}
	if op.Client.Metadata() != nil {
		return mongoerr.New(mongoerr.ClientMetadataCannotBeMutated, "The client metadata document may only be sent in the first hello")
	}
	d := v.Doc()
	if len(d) > maxClientMetadata {
		return mongoerr.New(mongoerr.ClientMetadataDocumentTooLarge, "The client metadata document must be less then or equal to %d bytes", maxClientMetadata)
	}
	name, err := applicationName(d)
	if err != nil {
		return err
	}
	if err := part(d, "driver", "name", "version"); err != nil {
		return err
	}
	if err := part(d, "os", "type"); err != nil {
		return err
	}
	op.Client.SetMetadata(&command.Metadata{Document: d.Clone(), AppName: strings.Clone(name)})
	return nil
}

// applicationName reads client.application.name, "" if there is none.
func applicationName(d bson.Doc) (string, error) {
	app := d.Lookup("application")
	if app.IsMissing() {
		return "", nil
	}
	if app.Type != bson.TypeDocument {
		return "", mongoerr.New(mongoerr.TypeMismatch, "The 'application' field is required to be a BSON document in the client metadata document")
	}
	name := app.Doc().Lookup("name")
	switch {
	case name.IsMissing():
		return "", nil
	case name.Type != bson.TypeString:
		return "", mongoerr.New(mongoerr.TypeMismatch, "The 'application.name' field must be a string in the client metadata document")
	case len(name.Str()) > maxAppName:
		return "", mongoerr.New(mongoerr.ClientMetadataAppNameTooLarge,
			"The 'application.name' field must be less then or equal to %d bytes in the client metadata document", maxAppName)
	}
	return name.Str(), nil
}

// part checks that a part of the metadata exists and has its string fields.
func part(d bson.Doc, name string, fields ...string) error {
	v := d.Lookup(name)
	if v.IsMissing() {
		return mongoerr.New(mongoerr.ClientMetadataMissingField, "Missing required sub-document '%s' in the client metadata document", name)
	}
	if v.Type != bson.TypeDocument {
		return mongoerr.New(mongoerr.TypeMismatch, "The '%s' field is required to be a BSON document in the client metadata document", name)
	}
	for _, f := range fields {
		switch s := v.Doc().Lookup(f); {
		case s.IsMissing():
			return mongoerr.New(mongoerr.ClientMetadataMissingField, "Missing required field '%s' in the client metadata document", f)
		case s.Type != bson.TypeString:
			return mongoerr.New(mongoerr.TypeMismatch, "The '%s.%s' field must be a string in the client metadata document", name, f)
		}
	}
	return nil
}
