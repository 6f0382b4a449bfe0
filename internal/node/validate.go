package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

// validate answers {validate: collection}: it checks that a collection and its
// indexes agree. (Manual: database command validate.)
func (n *Node) validate() *command.Command {
	return &command.Command{
		Name: "validate", Flags: command.TakesReadConcern,
		Help: "Validate contents of a namespace by scanning its data structures for correctness.\nThis is a slow operation.",
		Run:  n.runValidate,
	}
}

// validateMode is what a validate has to check.
type validateMode struct{ full, repair, fixMultikey, metadata, conformance bool }

func (m validateMode) repairMode() string {
	switch {
	case m.repair:
		return "FixErrors"
	case m.fixMultikey:
		return "AdjustMultikey"
	}
	return "None"
}

// parseValidateMode reads the options; any value counts as a bool. Errors: 72
// for options that exclude each other, 115 for a validation in the background,
// which a standalone has not. On a member it is the same as one in the foreground,
// which keeps nobody waiting either.
func parseValidateMode(body bson.Doc, ns string, member bool) (m validateMode, err error) {
	flag := func(name string) bool { return body.Lookup(name).Truthy() }
	m = validateMode{
		full: flag("full"), repair: flag("repair"), fixMultikey: flag("fixMultikey"),
		metadata: flag("metadata"), conformance: flag("checkBSONConformance"),
	}
	refuse := func(text string) (validateMode, error) {
		return m, mongoerr.New(mongoerr.InvalidOptions, "Running the validate command with %s is not supported.", text)
	}
	background := flag("background")
	switch {
	case m.metadata && (background || m.full || flag("enforceFastCount") || m.repair || m.fixMultikey || m.conformance):
		return refuse("{ metadata: true } and any other options")
	case m.repair && background:
		return refuse("both { background: true } and { repair: true }")
	case m.conformance && m.repair:
		return refuse("both { checkBSONConformance: true } and { repair: true }")
	case m.full && background:
		return refuse("both { background: true } and { full: true }")
	case background && !member:
		return m, mongoerr.New(mongoerr.CommandNotSupported,
			"Running validate on collection { background: true } is not supported on the inMemory storage engine: %s", ns)
	}
	return m, nil
}

func (n *Node) runValidate(ctx context.Context, op *command.Op) error {
	ns, err := looseNamespace(op)
	if err != nil {
		return err
	}
	m, err := parseValidateMode(op.Body, ns.String(), n.Dispatcher.Member != nil)
	if err != nil {
		return err
	}
	c := n.Catalog.Lookup(ns)
	if c == nil {
		c = n.bucketsOf(ns)
	}
	if c == nil {
		return mongoerr.New(mongoerr.NamespaceNotFound, "Collection '%s' does not exist to validate.", ns)
	}
	if c.IsView() {
		return mongoerr.New(mongoerr.CommandNotSupportedOnView, "Cannot validate a view")
	}
	if m.metadata {
		writeMetadataValidation(op.Reply, ns, c)
		return nil
	}
	v, err := n.Catalog.Validate(ctx, c, m.full)
	if err != nil {
		return err
	}
	writeValidation(op.Reply, ns, v, m)
	return nil
}

// writeMetadataValidation writes the reply of {metadata: true}: a descriptor
// that could be read is valid.
func writeMetadataValidation(b *bson.Builder, ns schema.Namespace, c *catalog.Collection) {
	b.String("ns", ns.String()).Binary("uuid", 4, c.UUID[:]).Int32("nIndexes", int32(len(c.Indexes())))
	b.OpenDoc("keysPerIndex").Close().OpenDoc("indexDetails")
	for _, ix := range c.Indexes() {
		b.OpenDoc(ix.Name).Bool("valid", true).Doc("spec", ix.Shown()).Close()
	}
	b.Close().Bool("valid", true).Bool("repaired", false).String("repairMode", "None")
	for _, name := range []string{"warnings", "errors", "extraIndexEntries", "missingIndexEntries", "corruptRecords"} {
		b.OpenArray(name).Close()
	}
}

// writeValidation writes the reply; ns is what the client named: a time-series
// collection or its buckets.
func writeValidation(b *bson.Builder, ns schema.Namespace, v *catalog.Validation, m validateMode) {
	b.String("ns", ns.String()).Binary("uuid", 4, v.UUID[:]).
		Int("nInvalidDocuments", v.InvalidDocuments).Int("nNonCompliantDocuments", 0).
		Int("nrecords", v.Records).Int("nIndexes", int64(len(v.Indexes)))
	b.OpenDoc("keysPerIndex")
	for _, ix := range v.Indexes {
		b.Int(ix.Index.Name, ix.Keys)
	}
	b.Close().OpenDoc("indexDetails")
	for _, ix := range v.Indexes {
		b.OpenDoc(ix.Index.Name).Bool("valid", ix.Valid).Doc("spec", ix.Index.Shown())
		if len(ix.Errors) > 0 {
			b.Strings("errors", ix.Errors...)
		}
		b.Close()
	}
	b.Close().Bool("valid", v.Valid).Bool("repaired", false).String("repairMode", m.repairMode())
	b.Strings("warnings", v.Warnings...).Strings("errors", v.Errors...)
	writeFindings(b, "extraIndexEntries", v.ExtraEntries)
	writeFindings(b, "missingIndexEntries", v.MissingEntries)
	b.OpenArray("corruptRecords")
	for i, key := range v.CorruptRecords {
		b.Binary(bson.Index(i), 0, key)
	}
	b.Close()
	if !v.Valid {
		b.String("advice", "A corrupt namespace has been detected. See http://dochub.mongodb.org/core/data-recovery for recovery steps.")
	}
}

func writeFindings(b *bson.Builder, name string, findings []catalog.Finding) {
	b.OpenArray(name)
	for i, f := range findings {
		b.OpenDoc(bson.Index(i)).String("indexName", f.Index.Name).
			Binary("recordId", 0, f.Record).Binary("indexKey", 0, f.Key.Bytes).Close()
	}
	b.Close()
}
