// Package fts is the language of text search: it splits text into words, leaves
// out stop words, reduces words to stems, weighs them, and parses search
// strings. It knows strings only; which strings of a document count is
// package match's affair.
//
// Text indexes have versions. Version 3 goes by Unicode: it folds case and
// takes off diacritics. Versions 1 and 2 fold the case of ASCII letters only.
// The stemmers are those of the Snowball project, and so are, but for English
// and Romanian, the lists of stop words in stopwords/.
//
// Start reading at language.go, then tokens.go and query.go.
package fts
