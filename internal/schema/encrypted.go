package schema

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// NoEncryption is the code of the error for encrypted collections.
const NoEncryption = mongoerr.Code(6346402)

// setEncrypted reads encryptedFields of `create`. No server has encrypted collections;
// the error is that of one that is not a member of a replica set.
func (o *Options) setEncrypted(d bson.Doc) error {
	if o.Capped {
		return mongoerr.New(mongoerr.Code(6367301), "Encrypted collections cannot be capped")
	}
	return mongoerr.New(NoEncryption, "Encrypted collections are not supported on standalone")
}

// encryptedShape refuses views and time-series collections with encryptedFields.
func encryptedShape() error {
	return mongoerr.New(mongoerr.Code(6346401), "Encrypted collections are not supported with time-series collections or views")
}
