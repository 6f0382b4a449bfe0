package schema

import (
	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
	"github.com/mayflydb/mayfly/internal/query/expr"
	"github.com/mayflydb/mayfly/internal/query/match"
)

// Validator decides which documents a collection lets in.
type Validator struct {
	filter   *match.Filter
	moderate bool // documents that did not match before may stay so
	warn     bool // what does not match is accepted, and logged
}

// ParseValidator makes the Validator of a collection from its stored options;
// nil if every document is fine.
func ParseValidator(options bson.Doc) (*Validator, error) {
	o, err := LoadOptions(options)
	if err != nil {
		return nil, err
	}
	return o.Validation, nil
}

// loadValidator sets Validation from the options.
func (o *Options) loadValidator() (err error) {
	o.Validation = nil
	if len(o.Validator) == 0 || o.Validator.IsEmpty() || o.ValidationLevel == "off" {
		return nil
	}
	v := &Validator{moderate: o.ValidationLevel == "moderate", warn: o.ValidationAction == "warn"}
	if v.filter, err = parseValidator(o.Validator, o.Collation); err != nil {
		return err
	}
	o.Validation = v
	return nil
}

func parseValidator(filter bson.Doc, c *Collation) (*match.Filter, error) {
	return match.Parse(filter, &match.Options{
		Collator: c.order(),
		Expr:     &expr.Options{Collator: c.order(), Validator: true},
		Forbid:   match.FeatureText | match.FeatureNear | match.FeatureJavaScript,
	})
}

// setValidator reads the validator of `create`. Errors: 72 if the namespace
// may have none, and those of the filter.
func (o *Options) setValidator(ns Namespace, get getter) error {
	o.ValidationLevel, o.ValidationAction = text(get("validationLevel")), text(get("validationAction"))
	v := get("validator")
	if v.IsMissing() || o.ViewOn != "" {
		return nil
	}
	o.Validator = v.Doc()
	return o.CheckValidator(ns)
}

// CheckValidator reports whether a collection of that name may have the validator,
// and readies it. Errors: 72, and those of the filter.
func (o *Options) CheckValidator(ns Namespace) error {
	if len(o.Validator) > 0 && !o.Validator.IsEmpty() {
		if ns.IsSystem() && !ns.IsBuckets() {
			return invalidOptions("Document validators not allowed on system collection %s", ns)
		}
		switch ns.DB {
		case "admin", "local", "config":
			return invalidOptions("Document validators are not allowed on collection %s in the %s internal database", ns, ns.DB)
		}
		if _, err := parseValidator(o.Validator, o.Collation); err != nil {
			return err
		}
	}
	return o.loadValidator()
}

// Check reports whether doc may be stored in place of old, which is nil for a new
// document: error 121, with errInfo. Where the collection only warns, warn gets
// the errInfo and there is no error. A document on which an expression of the
// validator fails is not valid either. stamped says that the server writes _ts
// into each document: a validator may speak of that, but need not allow it.
func (v *Validator) Check(old, doc bson.Doc, stamped bool, warn func(errInfo bson.Doc)) error {
	if v.admits(doc, stamped) {
		return nil
	}
	if v.moderate && old != nil && !v.admits(old, stamped) {
		return nil
	}
	if stamped {
		doc = unstamped(doc)
	}
	info, err := v.filter.ExplainFailure(doc, nil)
	if err != nil {
		return err
	}
	if v.warn {
		if warn != nil {
			warn(info)
		}
		return nil
	}
	return mongoerr.New(mongoerr.DocumentValidationFailure, "Document failed validation").WithInfo(info)
}

func (v *Validator) admits(doc bson.Doc, stamped bool) bool {
	if ok, err := v.filter.Match(doc); ok && err == nil {
		return true
	}
	if !stamped || !doc.Has(LastWriteField) {
		return false
	}
	ok, err := v.filter.Match(unstamped(doc))
	return ok && err == nil
}
