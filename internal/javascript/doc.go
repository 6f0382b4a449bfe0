// Package javascript runs the functions that clients send ($where, $function,
// $accumulator, mapReduce) on github.com/dop251/goja. It is pure: functions and
// BSON values in, BSON values out; there is no I/O, no module loader and no
// timer, and print goes to the log.
//
// An Engine (engine.go) belongs to the server and keeps compiled texts. A
// Session (session.go) is what all JavaScript of one operation shares, and makes
// the Scope (scope.go), a runtime with its own globals, at the first call:
// nothing that a function leaves behind is visible to another operation.
//
// source.go turns what clients write (a function, an expression, statements)
// into one function. document.go has documents as objects that decode a field
// when it is asked for; read.go and write.go convert values, box.go has the types
// that JavaScript lacks, with their constructors in the files named after them;
// prelude.js has helpers written in JavaScript itself.
//
// Types are preserved as in mongod: an int read from a document and put back
// under its name stays an int, any other number is a double; what a function
// does not touch keeps its bytes.
//
// # Limits
//
// Time: a call ends with its context, and after callTimeout. Text: maxText,
// maxNesting, maxOperators and maxColons, because the compiler recurses and cannot
// be stopped. Calls: maxCalls deep. Results: maxResult bytes, maxDepth levels.
// Memory: goja cannot bound what a runtime allocates, so there is no limit for a
// function as the server has one (internalQueryJavaScriptHeapSizeLimitMB), only one
// for the process: while a function runs, the heap is checked every few
// milliseconds, and a function during which it grows by a third of the memory that
// was free, or by maxGrowth, is stopped. A function that runs longer than a tick also takes
// its share of that growth from the budget of all operations, and fails with 146 if there
// is none. One instruction may allocate before anyone looks, so sums and templates of
// strings are counted (sums.go), and a function that has made checkAfter bytes checks
// its heap itself. The built-in functions that make much of little have bounds of their own (bounds.go),
// and what has none is withheld: typed arrays, BigInt, Proxy, yield*. A search of
// a regular expression ends after maxMatch; any other native instruction (a sort
// without a function) is not interrupted.
//
// # Size
//
// goja's objects for Go values call methods by a name that is known when it runs
// only, so the linker keeps all exported methods of all types in the binary: 5.3
// of its 42.2 MB. No function of a client gets such an object.
package javascript
