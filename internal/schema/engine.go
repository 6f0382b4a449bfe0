package schema

import (
	"strings"

	"github.com/mayflydb/mayfly/internal/bson"
	"github.com/mayflydb/mayfly/internal/mongoerr"
)

// engineOptions are the storage engines that may be configured, and the options
// each takes. wiredTiger is accepted, since applications name it, and has no
// effect here.
var engineOptions = map[string]map[string]bool{
	"wiredTiger": {"configString": true},
	"mayfly":     {"expiry": true},
}

// configKeys are what a wiredTiger configuration string may set.
var configKeys = map[string]bool{
	"access_pattern_hint": true, "allocation_size": true, "app_metadata": true, "block_allocation": true,
	"block_compressor": true, "cache_resident": true, "checksum": true, "collator": true, "columns": true,
	"dictionary": true, "encryption": true, "format": true, "huffman_key": true, "huffman_value": true,
	"ignore_in_memory_cache_size": true, "immutable": true, "internal_item_max": true, "internal_key_max": true,
	"internal_key_truncate": true, "internal_page_max": true, "key_format": true, "key_gap": true, "leaf_item_max": true,
	"leaf_key_max": true, "leaf_page_max": true, "leaf_value_max": true, "log": true, "lsm": true,
	"memory_page_image_max": true, "memory_page_max": true, "os_cache_dirty_max": true, "os_cache_max": true,
	"prefix_compression": true, "prefix_compression_min": true, "split_deepen_min_child": true,
	"split_deepen_per_child": true, "split_pct": true, "tiered_storage": true, "type": true, "value_format": true, "verbose": true,
}

// setStorage reads storageEngine and indexOptionDefaults of `create`.
func (o *Options) setStorage(get getter) error {
	if v := get("storageEngine"); !v.IsMissing() {
		o.StorageEngine = v.Doc()
		if err := validateEngines(o.StorageEngine); err != nil {
			return err
		}
		var dryRun bool
		var err error
		if o.Expiry, dryRun, err = ExpiryOf(o.StorageEngine); err != nil {
			return err
		}
		if dryRun {
			return invalidOptions("'%s.dryRun' is only for createIndexes and collMod", expiryPath)
		}
	}
	if v := get("indexOptionDefaults"); !v.IsMissing() {
		o.IndexOptionDefaults = v.Doc()
		engines := document(o.IndexOptionDefaults.Lookup("storageEngine"))
		if !engines.Lookup("mayfly").IsMissing() {
			return invalidOptions("'indexOptionDefaults' cannot have options of the engine mayfly: set expiry for the whole collection, or for an index")
		}
		return validateEngines(engines)
	}
	return nil
}

// validateEngines checks a storageEngine option: {engine: {options}}. Errors:
// 72 for an engine or an option that does not exist, 2 and 9 for values.
func validateEngines(d bson.Doc) error {
	for engine, v := range d.All() {
		if v.Type != bson.TypeDocument {
			return mongoerr.New(mongoerr.BadValue, "'storageEngine.%s' has to be an embedded document.", engine)
		}
		known, ok := engineOptions[engine]
		if !ok {
			return invalidOptions("%s is not a registered storage engine for this server", engine)
		}
		for name, v := range v.Doc().All() {
			if !known[name] {
				return invalidOptions("'%s' is not a supported option.", name)
			}
			if name == "configString" {
				if err := validateConfig(v); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func validateConfig(v bson.Value) error {
	if v.Type != bson.TypeString {
		return mongoerr.New(mongoerr.TypeMismatch, "'configString' must be a string. Not adding 'configString' value %s to collection configuration", v)
	}
	if strings.IndexByte(v.Str(), 0) >= 0 {
		return mongoerr.New(mongoerr.FailedToParse, "malformed 'configString' value: embedded null bytes are not allowed")
	}
	depth := 0
	for _, setting := range strings.FieldsFunc(v.Str(), func(r rune) bool {
		switch r {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		}
		return r == ',' && depth == 0
	}) {
		key, _, _ := strings.Cut(setting, "=")
		if key = strings.TrimSpace(key); key != "" && !configKeys[key] {
			return mongoerr.New(mongoerr.BadValue, "unknown configuration key: '%s': Invalid argument", key)
		}
	}
	return nil
}
