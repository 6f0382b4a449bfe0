package schema

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// Bounds of names, in bytes.
const (
	maxDatabaseName = 63
	// MaxNamespace is how long a full name, "db.coll", may be.
	MaxNamespace = 255
)

// BucketsPrefix stands in front of a time-series collection's name in the
// name of the collection that holds its buckets.
const BucketsPrefix = "system.buckets."

// ViewsCollection is the collection of a database that holds its views.
const ViewsCollection = "system.views"

// ProfileCollection is the collection of a database the profiler writes to.
const ProfileCollection = "system.profile"

// ArchiveCollection is the collection of a database that says which objects have what was archived.
const ArchiveCollection = "system.archive"

// Namespace names a collection: its database and its name therein.
type Namespace struct{ DB, Coll string }

// String is the full name, "db.coll"; "db" alone if there is no collection.
func (n Namespace) String() string {
	if n.Coll == "" {
		return n.DB
	}
	return n.DB + "." + n.Coll
}

// ParseNamespace splits a full name at its first dot; Collection is empty where
// there is none.
func ParseNamespace(s string) Namespace {
	db, coll, _ := strings.Cut(s, ".")
	return Namespace{db, coll}
}

// IsSystem reports whether the collection's name starts with "system.".
func (n Namespace) IsSystem() bool { return strings.HasPrefix(n.Coll, "system.") }

// ReshardingPrefix begins the name of a collection that a shard receives by another shard key.
const ReshardingPrefix = "system.resharding."

// IsResharding reports whether n is that of a collection that is received by another shard key.
func (n Namespace) IsResharding() bool { return strings.HasPrefix(n.Coll, ReshardingPrefix) }

// IsBuckets reports whether n holds the buckets of a time-series collection.
func (n Namespace) IsBuckets() bool { return strings.HasPrefix(n.Coll, BucketsPrefix) }

// CheckArchive refuses commands that would change the collection system.archive, but for dropping its
// database: what it says is how archived documents are found. Errors: 73.
func (n Namespace) CheckArchive() error {
	if n.Coll == ArchiveCollection {
		return mongoerr.New(mongoerr.InvalidNamespace, "cannot write to %s", n)
	}
	return nil
}

// IsDroppable reports whether clients may drop the system collection n whatever the
// state of the server.
func (n Namespace) IsDroppable() bool {
	switch n {
	case Namespace{"local", "system.healthlog"}, Namespace{"config", "system.sessions"}, Namespace{"config", "system.preimages"},
		Namespace{"admin", "system.keys"}:
		return true
	}
	return n.Coll == "system.js" || n.IsBuckets()
}

// Oplog is the oplog of a member of a replica set.
var Oplog = Namespace{"local", "oplog.rs"}

// Transactions shows on a member of a replica set what sessions have executed last.
var Transactions = Namespace{"config", "transactions"}

// IsOplog reports whether n is the oplog.
func (n Namespace) IsOplog() bool {
	return n.DB == "local" && (n.Coll == "oplog.rs" || strings.HasPrefix(n.Coll, "oplog."))
}

// Buckets is the namespace of the buckets behind the time-series collection n.
func (n Namespace) Buckets() Namespace { return Namespace{n.DB, BucketsPrefix + n.Coll} }

// ValidateDatabase reports whether name may name a database; error 73.
func ValidateDatabase(name string) error {
	if len(name) > maxDatabaseName {
		return mongoerr.New(mongoerr.InvalidNamespace, "db name must be at most %d characters, found: %d", maxDatabaseName, len(name))
	}
	if name == "" || strings.ContainsAny(name, "/\\. \"\x00$") && name != "$external" {
		return mongoerr.New(mongoerr.InvalidNamespace, "Invalid database name: '%s'", name)
	}
	return nil
}

// Validate reports whether n is well formed, for commands that read or write an
// existing collection; error 73. What a user may create is narrower: see
// ValidateCreate.
func (n Namespace) Validate() error {
	if err := ValidateDatabase(n.DB); err != nil {
		return err
	}
	if !n.WellFormed() {
		return n.invalid()
	}
	if strings.IndexByte(n.Coll, '$') >= 0 && !n.mayHoldDollar() {
		return n.invalid()
	}
	return nil
}

// WellFormed reports whether the collection's name is one at all: not empty,
// without a leading dot or zero bytes.
func (n Namespace) WellFormed() bool {
	return n.Coll != "" && n.Coll[0] != '.' && strings.IndexByte(n.Coll, 0) < 0
}

func (n Namespace) invalid() error {
	return mongoerr.New(mongoerr.InvalidNamespace, "Invalid namespace specified '%s'", n.DB+"."+n.Coll)
}

// mayHoldDollar allows the only family of names with a dollar sign.
func (n Namespace) mayHoldDollar() bool {
	return n.DB == "local" && strings.HasPrefix(n.Coll, "oplog.$main")
}

// ValidateCreate reports whether a user may create n: well formed, not longer
// than 255 bytes, and no reserved system name; error 73.
func (n Namespace) ValidateCreate() error {
	if err := n.Validate(); err != nil {
		return err
	}
	if l := len(n.DB) + 1 + len(n.Coll); l > MaxNamespace {
		return mongoerr.New(mongoerr.InvalidNamespace,
			"Fully qualified namespace is too long. Namespace: %s Max: %d", n, MaxNamespace)
	}
	if n.IsSystem() && n.Coll != ProfileCollection && !n.legalSystem() {
		return mongoerr.New(mongoerr.InvalidNamespace, "Invalid system namespace: %s", n)
	}
	return nil
}

// ValidateWrite reports whether a user may write to n: what the server keeps for
// itself is not his, and the rest he could create; error 73.
func (n Namespace) ValidateWrite() error {
	if n.Coll == ProfileCollection || n.Coll == ViewsCollection {
		return mongoerr.New(mongoerr.InvalidNamespace, "cannot write to %s", n)
	}
	if err := n.CheckArchive(); err != nil {
		return err
	}
	return n.ValidateCreate()
}

// legalSystem reports whether clients may write to the system collection n.
func (n Namespace) legalSystem() bool {
	switch n.DB {
	case "admin":
		switch n.Coll {
		case "system.roles", "system.version", "system.keys", "system.backup_users", "system.new_users":
			return true
		}
	case "config":
		switch n.Coll {
		case "system.sessions", "system.indexBuilds", "system.preimages", "system.sharding_ddl_coordinators":
			return true
		}
	case "local":
		switch n.Coll {
		case "system.replset", "system.healthlog", "system.rollback.id":
			return true
		}
	}
	switch n.Coll {
	case "system.users", "system.js", ViewsCollection:
		return true
	}
	return n.IsBuckets() && len(n.Coll) > len(BucketsPrefix)
}
