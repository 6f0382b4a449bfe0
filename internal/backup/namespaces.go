package backup

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/mayflydb/mayfly/internal/catalog"
)

// Namespaces are patterns of collections, DB.COLLECTION with * for any characters, as
// mongorestore has them (--nsInclude). None are all collections.
type Namespaces []*regexp.Regexp

// ParseNamespace adds a pattern.
func (n *Namespaces) ParseNamespace(pattern string) error {
	db, coll, ok := strings.Cut(pattern, ".")
	if !ok && pattern != "*" || ok && (db == "" || coll == "") {
		return fmt.Errorf("%q is not DB.COLLECTION, with * for any characters", pattern)
	}
	re, err := regexp.Compile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
	*n = append(*n, re)
	return err
}

func (n Namespaces) match(ns string) bool {
	for _, re := range n {
		if re.MatchString(ns) {
			return true
		}
	}
	return false
}

// keepOnly removes all other collections from restored data, users and roles among them.
func (n Namespaces) keepOnly(ctx context.Context, c *catalog.Catalog) error {
	kept := 0
	for _, db := range c.Databases() {
		for _, coll := range c.Collections(db) {
			switch ns := coll.Namespace; {
			case ns.DB == "local" || ns.DB == "admin" && ns.Coll == "system.version" || ns.Coll == "system.views" || ns.IsBuckets():
			case n.match(ns.String()):
				kept++
			default:
				if _, err := c.Drop(ctx, ns); err != nil {
					return fmt.Errorf("%s: %w", ns, err)
				}
			}
		}
	}
	if kept == 0 {
		return fmt.Errorf("the backup has no collection that --ns names, at that time")
	}
	return nil
}
