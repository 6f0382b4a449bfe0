package match

import "github.com/mayflydb/mayfly/internal/bson"

// Serialize is the normal form of a tree as explain prints it in parsedQuery:
// {a: {$eq: 1}}, {$and: [...]}.
func Serialize(n Node) bson.Doc {
	var b bson.Builder
	n.text(&b)
	return b.Finish()
}
