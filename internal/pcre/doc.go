// Package pcre runs the server's regular expressions, which are PCRE2's.
//
// A pattern is translated (translate.go) to the syntax of Go's regexp, which
// matches in linear time; what that cannot express (look-around, back
// references, possessive and atomic groups, Unicode classes after (*UCP)) goes
// to a backtracking engine under a time limit. Start reading at compile.go.
package pcre
