// Package moving runs mayfly import from one server to another: the page about it, and with kill -9.
package moving
