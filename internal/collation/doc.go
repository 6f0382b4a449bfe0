// Package collation orders strings as people of a language do: for a locale
// and the options of the server's collations it makes keys whose byte order is
// the order of the strings. Everything is compared by these keys, so that
// queries, sorts and indexes cannot disagree.
//
// Start reading at collator.go; locale.go lists what locales there are.
package collation
