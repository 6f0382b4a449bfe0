package cosmos

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/schema"
)

// maxID bounds the length of an id, in characters, as the service does.
const maxID = 255

// checkID checks that an id is valid for a database or a container. Errors: 400.
func checkID(id string) error {
	switch {
	case id == "":
		return badRequest("The input content is invalid because the required properties - 'id; ' - are missing")
	case len(id) > maxID:
		return badRequest("The request payload is invalid. Ensure to provide a valid request payload: the id is longer than %d characters.", maxID)
	case strings.ContainsAny(id, "/\\#?\x00") || strings.HasSuffix(id, " "):
		return badRequest("The input name '%s' is invalid. Ensure to provide a unique non-empty string less than '%d' characters and without '/', '\\', '#', '?' or a blank at its end.", id, maxID)
	}
	return nil
}

// escapeName escapes characters that a MongoDB name may not have as %XX.
func escapeName(id, chars string) string {
	escaped := func(c byte) bool { return c < ' ' || c == '%' || strings.IndexByte(chars, c) >= 0 }
	at := 0
	for at < len(id) && !escaped(id[at]) {
		at++
	}
	if at == len(id) {
		return id
	}
	var b strings.Builder
	const digits = "0123456789ABCDEF"
	b.WriteString(id[:at])
	for i := at; i < len(id); i++ {
		if c := id[i]; escaped(c) {
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// reservedNames are MongoDB's own databases.
var reservedNames = map[string]bool{"admin": true, "local": true, "config": true}

func databaseName(id string) string {
	name := escapeName(id, `/\. "$*<>:|?`)
	if reservedNames[name] {
		name = "%" + name
	}
	return name
}

// namespace returns the namespace of a container's items.
func namespace(db, container string) schema.Namespace {
	name := escapeName(container, "$")
	if strings.HasPrefix(name, "system.") {
		name = "%" + name
	}
	return schema.Namespace{DB: databaseName(db), Coll: name}
}
