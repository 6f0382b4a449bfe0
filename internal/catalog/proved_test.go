package catalog_test

import (
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/catalog/replay"
	"github.com/mayflydb/mayfly/internal/storage"
)

func init() {
	catalog.ProveWith(func(t catalog.Failer, s storage.Options, o catalog.Options) (*storage.Engine, *catalog.Catalog) {
		return replay.Open(t, s, o)
	})
}
