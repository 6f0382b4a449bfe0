// Package lint holds the tree to its rules: the order of the layers, a package
// comment in every package, and the length of functions. It has tests only;
// the sources are parsed in the test itself, so a result is never stale.
//
// Start reading at layers_test.go: the table there is the architecture.
package lint
