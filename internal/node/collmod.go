package node

import (
	"cmp"
	"context"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/catalog"
	"github.com/mayflydb/mayfly/internal/command"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/schema"
)

var (
	collModIndexFields = command.NewFields("index",
		command.String("name"),
		command.Object("keyPattern"),
		command.Any("expireAfterSeconds"),
		command.Object("storageEngine"),
		command.SafeBool("hidden"),
		command.SafeBool("unique"),
		command.SafeBool("prepareUnique"),
		command.SafeBool("forceNonUnique"),
	)
	collModTimeseriesFields = command.NewFields("timeseries",
		command.Enum("granularity", "seconds", "minutes", "hours"),
		command.SafeInt("bucketMaxSpanSeconds").Min(1).Max(31536000),
		command.SafeInt("bucketRoundingSeconds").Min(1).Max(31536000),
	)
	collModFields = command.NewFields("collMod",
		command.CollectionOrUUID(),
		command.Struct("index", collModIndexFields),
		command.Object("storageEngine"),
		command.Object("validator"),
		command.Enum("validationLevel", "off", "strict", "moderate"),
		command.Enum("validationAction", "error", "warn", "errorAndLog"),
		command.String("viewOn"),
		command.ArrayOf("pipeline", command.Object("")),
		command.Struct("changeStreamPreAndPostImages", imagesFields),
		command.OneOf("expireAfterSeconds", bson.TypeString, bson.TypeInt64, bson.TypeInt32, bson.TypeDecimal, bson.TypeDouble).NotNull(),
		command.Struct("timeseries", collModTimeseriesFields),
		command.SafeInt64("cappedSize").Min(1).Max(1<<50),
		command.SafeInt64("cappedMax").Max(1<<31-1),
		command.SafeBool("dryRun"),
		command.UUID("collectionUUID"),
		command.Bool("isTimeseriesNamespace"),
	)
)

// collMod answers {collMod: collection, …}: it changes options of a collection,
// of a view, or of an index. (Manual: database command collMod.)
func (n *Node) collMod() *command.Command {
	return &command.Command{
		Name: "collMod", Fields: collModFields, Flags: command.ChecksDatabase | ddlFlags | command.APIv1,
		Help: "Sets collection options.",
		Run:  n.collModded.watch(n.runCollMod), Extra: n.collModded.write,
	}
}

func (n *Node) runCollMod(ctx context.Context, op *command.Op) error {
	if op.HasUUID {
		if _, err := n.existing(op, "ns does not exist"); err != nil {
			return err
		}
	}
	ns := namespace(op)
	if err := ns.CheckArchive(); err != nil {
		return err
	}
	m := collModification{n: n, op: op, args: &op.Args}
	if asksDryRun(&op.Args) {
		return n.dryRunCollMod(ctx, op, &m)
	}
	if n.bucketsOf(ns) != nil {
		return mongoerr.New(mongoerr.InvalidNamespace, "collMod on a time-series collection's underlying buckets collection is not supported.")
	}
	if ns.IsOplog() && (op.Args.Has("cappedSize") || op.Args.Has("cappedMax")) {
		return mongoerr.New(mongoerr.InvalidOptions, "Cannot resize the oplog using this command. Use the 'replSetResizeOplog' command instead.")
	}
	changed, err := n.Catalog.Modify(ctx, ns, m.decide)
	if mongoerr.Is(err, mongoerr.NamespaceNotFound) {
		err = mongoerr.New(mongoerr.NamespaceNotFound, "ns does not exist")
	}
	if err != nil {
		return err
	}
	if changed.IsView() {
		if err := n.showView(ctx, ns); err != nil {
			return err
		}
	}
	op.Reply.Fields(m.reply.Finish())
	return nil
}

// collModification is one collMod: decide runs on the newest descriptor, while
// nobody writes to the collection.
type collModification struct {
	n     *Node
	op    *command.Op
	args  *command.Args
	reply bson.Builder // what changed: the fields _old and _new
}

func (m *collModification) decide(c *catalog.Collection) (change catalog.Modification, err error) {
	m.reply.Reset(nil)
	a := m.args
	if err := m.n.checkUUID(c.Namespace.DB, c.Namespace.Coll, c, a.Value("collectionUUID")); err != nil {
		return change, err
	}
	if a.Bool("dryRun") && !m.convertsToUnique() {
		return change, mongoerr.New(mongoerr.InvalidOptions, "dryRun mode is only supported for changing an index to a unique index")
	}
	o := *c.Settings
	if c.IsView() {
		err = m.view(c, &o)
	} else {
		err = m.collection(c, &o)
	}
	if err != nil {
		return change, err
	}
	if index, ok := a.Struct("index"); ok {
		to, err := m.index(c, &index)
		if err != nil {
			return change, err
		}
		if to != nil && !a.Bool("dryRun") {
			change.Indexes = map[string]*schema.Index{to.Name: to}
		}
	}
	change.Options = o.Doc()
	return change, nil
}

func (m *collModification) convertsToUnique() bool {
	index, ok := m.args.Struct("index")
	return ok && index.Bool("unique")
}

// onlyForCollections are the arguments that do not apply to views.
var onlyForCollections = []string{
	"index", "storageEngine", "validator", "validationLevel", "validationAction", "expireAfterSeconds", "timeseries", "cappedSize", "cappedMax",
}

// view changes the source and the pipeline of a view.
func (m *collModification) view(c *catalog.Collection, o *schema.Options) error {
	a := m.args
	for _, name := range onlyForCollections {
		if a.Has(name) {
			return mongoerr.New(mongoerr.InvalidOptions, "option not supported on a view: %s", name)
		}
	}
	if a.Has("changeStreamPreAndPostImages") {
		return mongoerr.New(mongoerr.InvalidOptions, "option not supported on a view: changeStreamPreAndPostImages")
	}
	if !a.Has("viewOn") && !a.Has("pipeline") {
		return nil
	}
	if a.Has("viewOn") {
		if o.ViewOn = a.Str("viewOn"); o.ViewOn == "" {
			return mongoerr.New(mongoerr.BadValue, "'viewOn' cannot be empty")
		}
	}
	if a.Has("pipeline") {
		var stages []bson.Value
		for _, v := range a.Array("pipeline") {
			if !v.IsNullish() {
				stages = append(stages, v)
			}
		}
		o.Pipeline = bson.Array(stages...).Doc()
	}
	return m.n.checkView(m.op, c.Namespace, o)
}

// collection changes the options of a collection.
func (m *collModification) collection(c *catalog.Collection, o *schema.Options) error {
	a := m.args
	for _, name := range []string{"viewOn", "pipeline"} {
		if a.Has(name) {
			return mongoerr.New(mongoerr.InvalidOptions, "option only supported on a view: %s", name)
		}
	}
	if err := m.validation(c, o); err != nil {
		return err
	}
	if err := m.capped(o); err != nil {
		return err
	}
	if images, ok := a.Struct("changeStreamPreAndPostImages"); ok {
		if o.Timeseries != nil {
			return notOnTimeseries("changeStreamPreAndPostImages")
		}
		o.PreAndPostImages = images.Bool("enabled")
	}
	if t, ok := a.Struct("timeseries"); ok {
		if o.Timeseries == nil {
			return mongoerr.New(mongoerr.InvalidOptions, "option only supported on a time-series collection: timeseries")
		}
		changed, err := o.Timeseries.Modify(t.Str("granularity"), t.Int64("bucketMaxSpanSeconds"), t.Int64("bucketRoundingSeconds"))
		if err != nil {
			return err
		}
		o.Timeseries = changed
	}
	if a.Has("storageEngine") {
		changed, err := schema.ChangeExpiry(o.StorageEngine, a.Doc("storageEngine"))
		if err != nil {
			return err
		}
		o.StorageEngine = changed
	}
	return m.expiry(o)
}

func notOnTimeseries(option string) error {
	return mongoerr.New(mongoerr.InvalidOptions, "option not supported on a time-series collection: %s", option)
}

func (m *collModification) validation(c *catalog.Collection, o *schema.Options) error {
	a := m.args
	changed := false
	for _, name := range []string{"validator", "validationLevel", "validationAction"} {
		if !a.Has(name) {
			continue
		}
		if o.Timeseries != nil {
			return notOnTimeseries(name)
		}
		changed = true
	}
	if !changed {
		return nil
	}
	if a.Has("validator") {
		o.Validator = a.Doc("validator")
	}
	if a.Has("validationLevel") {
		o.ValidationLevel = a.Str("validationLevel")
	}
	if a.Has("validationAction") {
		o.ValidationAction = a.Str("validationAction")
	}
	// From now on the options have all three.
	o.ValidationLevel, o.ValidationAction = cmp.Or(o.ValidationLevel, "strict"), cmp.Or(o.ValidationAction, "error")
	return o.CheckValidator(c.Namespace)
}

func (m *collModification) capped(o *schema.Options) error {
	a := m.args
	if !a.Has("cappedSize") && !a.Has("cappedMax") || o.Timeseries != nil {
		return nil
	}
	if !o.Capped {
		return mongoerr.New(mongoerr.InvalidOptions, "Collection must be capped.")
	}
	if a.Has("cappedSize") {
		o.Size = a.Int64("cappedSize")
	}
	if a.Has("cappedMax") {
		o.Max = max(a.Int64("cappedMax"), 0)
	}
	return nil
}

// expiry changes the collection's own expireAfterSeconds.
func (m *collModification) expiry(o *schema.Options) error {
	v := m.args.Value("expireAfterSeconds")
	if v.IsMissing() {
		return nil
	}
	if o.Clustered == nil && o.Timeseries == nil {
		return mongoerr.New(mongoerr.InvalidOptions, "'expireAfterSeconds' option is only supported on collections clustered by _id")
	}
	if v.Type == bson.TypeString {
		if v.Str() != "off" {
			return mongoerr.New(mongoerr.InvalidOptions,
				"Invalid string value for the 'clusteredIndex::expireAfterSeconds' option. Got: '%s'. Accepted value is 'off'", v.Str())
		}
		o.ExpireAfterSeconds = schema.NoExpiry
		return nil
	}
	return o.SetExpireAfter(v, m.n.Catalog.Clock.Stamped())
}
