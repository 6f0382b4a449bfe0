// Package waits measures what an operation waits for, and how long: who runs it gives it a
// context that carries its Waits, and whoever has it wait below says for what. Nothing is
// measured of what does not wait.
//
// Start reading at waits.go.
package waits
