package client

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/config"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Protocol is the version of what the processes of a cluster say to each other: their commands,
// with the versions of databases and collections in them. It rises with every change that an
// older build would misunderstand. This build understands all from OldestProtocol on.
const (
	Protocol       = 1
	OldestProtocol = 1
)

// DriverName is the name of this client in its metadata.
const DriverName = "mayfly"

// protocolField is where hello has what a build speaks, in the client's metadata and, if the
// client has said so, in the reply: {version: "0.1.0", min: 1, max: 1}.
const protocolField = "mayfly"

// AppendProtocol appends what this build speaks.
func AppendProtocol(b *bson.Builder) {
	b.OpenDoc(protocolField).String("version", config.Version).Int32("min", OldestProtocol).Int32("max", Protocol).Close()
}

// SaysProtocol reports whether client metadata, or a reply to hello, says what its build speaks.
func SaysProtocol(d bson.Doc) bool { return d.Has(protocolField) }

// CheckProtocol returns why this build and another do not understand each other, by the client
// metadata or the reply to hello of the other; nil if they do. who says which process that is.
// Error 188.
func CheckProtocol(d bson.Doc, who string) error {
	v := d.Lookup(protocolField)
	if v.Type != bson.TypeDocument {
		return mongoerr.New(mongoerr.IncompatibleServerVersion, "%s is no Mayfly, or a build from before 0.1.0, which does not say what protocol it speaks. All parts of a cluster need a build "+
			"that speaks protocol %d, as this one does (Mayfly %s)", who, Protocol, config.Version)
	}
	said := v.Doc()
	version, oldest, newest := said.Lookup("version"), bson.ClampToInt64(said.Lookup("min")), bson.ClampToInt64(said.Lookup("max"))
	name := "an unknown version"
	if version.Type == bson.TypeString {
		name = version.Str()
	}
	if newest < OldestProtocol {
		return mongoerr.New(mongoerr.IncompatibleServerVersion, "%s is Mayfly %s, which speaks protocol %d; this is Mayfly %s, which speaks none older than %d. Upgrade the other one first",
			who, name, newest, config.Version, OldestProtocol)
	}
	if oldest > Protocol {
		return mongoerr.New(mongoerr.IncompatibleServerVersion, "%s is Mayfly %s, which speaks protocol %d and newer; this is Mayfly %s, which speaks %d. Upgrade this one first",
			who, name, oldest, config.Version, Protocol)
	}
	return nil
}
