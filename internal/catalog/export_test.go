package catalog

import "github.com/mayflydb/mayfly/internal/storage"

// Failer is failer for catalog_test.
type Failer = failer

// ProveWith sets openProved.
func ProveWith(open func(Failer, storage.Options, Options) (*storage.Engine, *Catalog)) {
	openProved = open
}
