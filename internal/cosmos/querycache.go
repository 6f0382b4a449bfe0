package cosmos

import (
	"strings"
	"sync"

	"github.com/mayflydb/mayfly/internal/query/nosql"
)

const (
	// maxCachedQueries bounds the cached queries of a container.
	maxCachedQueries = 256
	// maxCachedText bounds the text of a cached query, in bytes.
	maxCachedText = 4 << 10
)

// queryCache caches the parsed queries over a container, by text. A container whose
// definition changes gets a new one.
type queryCache struct {
	computed nosql.Computed

	mu     sync.RWMutex
	parsed map[string]*nosql.Query
}

// parse returns the query of a text, without parameters. Errors are
// *nosql.Error.
func (c *queryCache) parse(text string) (*nosql.Query, error) {
	c.mu.RLock()
	q := c.parsed[text]
	c.mu.RUnlock()
	if q != nil {
		return q, nil
	}
	keep := len(text) <= maxCachedText
	if keep {
		text = strings.Clone(text) // a copy, which does not retain the request
	}
	q, err := nosql.Parse(text, nil, c.computed)
	if err != nil || !keep {
		return q, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parsed == nil || len(c.parsed) >= maxCachedQueries {
		c.parsed = map[string]*nosql.Query{}
	}
	c.parsed[text] = q
	return q, nil
}
