package node

import "github.com/mayflydb/mayfly/internal/command"

// encryptedFields declares the fields of `create`'s encryptedFields.
var encryptedFields = command.NewFields("encryptedFields",
	command.ArrayOf("fields", command.Struct("", command.NewFields("fields",
		command.UUID("keyId").Required(),
		command.String("path").Required(),
		command.String("bsonType"),
		command.Any("queries"),
	))).Required(),
	command.String("escCollection"),
	command.String("eccCollection"),
	command.String("ecocCollection"),
	command.Any("strEncodeVersion"),
)
