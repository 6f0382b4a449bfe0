// Package pcre runs the server's regular expressions, which are PCRE2's.
//
// PCRE2 itself (translated to Go by machine, no cgo) reports whether a pattern is
// one. What Go's regexp can say too (translate.go) runs there, in linear time;
// the rest runs on PCRE2's matcher under limits (engine.go). Start reading at
// compile.go.
package pcre
