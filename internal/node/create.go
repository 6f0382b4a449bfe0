package node

import (
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

var (
	// TimeseriesFields are those of create's timeseries, which shardCollection has as well.
	TimeseriesFields = command.NewFields("timeseries",
		command.String("timeField").Required(),
		command.String("metaField"),
		command.Enum("granularity", "seconds", "minutes", "hours"),
		command.SafeInt("bucketMaxSpanSeconds").Min(1).Max(31536000),
		command.SafeInt("bucketRoundingSeconds").Min(1).Max(31536000),
	)
	imagesFields = command.NewFields("changeStreamPreAndPostImages",
		command.Bool("enabled").Required(),
	)
	clusteredFields = command.NewFields("create.clusteredIndex",
		command.SafeInt("v"),
		command.Object("key").Required(),
		command.String("name"),
		command.SafeBool("unique").Required(),
	)
	createFields = command.NewFields("create",
		command.Collection(),
		command.SafeBool("capped"),
		command.SafeBool("autoIndexId"),
		command.Object("idIndex"),
		command.SafeInt64("size").Min(1).Max(1<<50),
		command.SafeInt64("max"),
		command.Object("storageEngine"),
		command.Struct("indexOptionDefaults", command.NewFields("indexOptionDefaults", command.Object("storageEngine"))),
		command.Object("validator"),
		command.Enum("validationLevel", "off", "strict", "moderate"),
		command.Enum("validationAction", "error", "warn", "errorAndLog"),
		command.String("viewOn"),
		command.ArrayOf("pipeline", command.Object("")),
		command.Object("collation"),
		command.Struct("changeStreamPreAndPostImages", imagesFields),
		command.Struct("timeseries", TimeseriesFields),
		command.Any("clusteredIndex"),
		command.SafeInt64("expireAfterSeconds"),
		command.Struct("encryptedFields", encryptedFields),
		command.Bool("temp"),
		command.Int32("flags"),
	)
)

// create answers {create: name, …}: it makes a collection or a view. (Manual:
// database command create.)
func (n *Node) create() *command.Command {
	return &command.Command{
		Name: "create", Fields: createFields, Flags: command.ChecksDatabase | ddlFlags | command.Transaction | command.APIv1,
		Help: "explicitly creates a collection or view",
		Run:  n.created.watch(n.runCreate), Extra: n.created.write,
	}
}

func (n *Node) runCreate(ctx context.Context, op *command.Op) error {
	return n.createAs(ctx, op, catalog.UUID{})
}

// createAs is a create of a collection that gets a UUID; zero for a new one.
func (n *Node) createAs(ctx context.Context, op *command.Op, id catalog.UUID) error {
	ns := namespace(op)
	if err := checkClusteredArgument(op.Args.Value("clusteredIndex")); err != nil {
		return err
	}
	if config, ok := op.Args.Struct("encryptedFields"); ok {
		if err := checkEncryptedFields(config); err != nil {
			return err
		}
	}
	if err := ns.ValidateCreate(); err != nil {
		return err
	}
	o, _, err := schema.NewOptions(ns, op.Body, n.Catalog.Clock.Stamped())
	if mongoerr.Is(err, schema.NoEncryption) && n.Dispatcher.Member != nil {
		return mongoerr.New(mongoerr.CommandNotSupported, "Encrypted collections are not supported by this server")
	}
	if err != nil {
		return err
	}
	if ns.IsBuckets() && o.Timeseries == nil {
		return mongoerr.New(mongoerr.IllegalOperation, "Creation of a timeseries bucket collection without timeseries options is not allowed")
	}
	if o.ViewOn != "" {
		if err := n.checkView(op, ns, o); err != nil {
			return err
		}
	}
	if c := n.lookup(op, ns); c != nil {
		if op.Transaction != nil {
			return mongoerr.New(mongoerr.NamespaceExists, "ns: %s already exists with options: %s", ns, c.Options)
		}
		return checkSame(c, o)
	}
	if op.Transaction != nil {
		if o.ViewOn != "" || o.Timeseries != nil {
			return mongoerr.New(mongoerr.OperationNotSupportedInTransaction, "Cannot create a view or a time-series collection in a multi-document transaction: %s", ns)
		}
		_, err = op.Transaction.Create(ctx, ns, o.Doc())
		return err
	}
	_, err = n.Catalog.CreateWith(ctx, ns, catalog.NewCollection{Options: o.Doc(), UUID: id})
	if mongoerr.Is(err, mongoerr.NamespaceExists) {
		if c := n.Catalog.Lookup(ns); c != nil {
			return checkSame(c, o)
		}
	}
	if err == nil && o.ViewOn != "" {
		err = n.showView(ctx, ns)
	}
	return err
}

// checkSame reports whether a `create` asks for exactly what exists: error 48
// where it does not.
func checkSame(c *catalog.Collection, o *schema.Options) error {
	existing, wanted := c.Options, o.Doc()
	if existing == nil {
		existing = bson.Empty
	}
	if bson.Equal(bson.Document(existing), bson.Document(wanted)) {
		return nil
	}
	if c.IsView() && o.ViewOn == "" {
		return mongoerr.New(mongoerr.NamespaceExists, "namespace %s already exists, but is a view", c.Namespace)
	}
	if !c.IsView() && o.ViewOn != "" {
		return mongoerr.New(mongoerr.NamespaceExists, "namespace %s already exists, but is a collection rather than a view", c.Namespace)
	}
	var b bson.Builder
	if !c.IsView() {
		b.Binary("uuid", 4, c.UUID[:])
	}
	return mongoerr.New(mongoerr.NamespaceExists, "namespace %s already exists, but with different options: %s",
		c.Namespace, b.Fields(existing).Finish())
}

// checkClusteredArgument checks the types of clusteredIndex, which is a
// specification or a bool, and unlike other arguments is never null.
func checkClusteredArgument(v bson.Value) error {
	switch {
	case v.IsMissing(), v.Type == bson.TypeBool, v.IsNumber():
		return nil
	case v.Type == bson.TypeDocument:
		_, err := command.ParseDoc(clusteredFields, v.Doc())
		return err
	}
	return mongoerr.New(mongoerr.TypeMismatch,
		"BSON field 'create.clusteredIndex' is the wrong type '%s', expected types '[bool, long, int, decimal, double, object]'", v.Type)
}
