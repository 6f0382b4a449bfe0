// Package driver runs the official Go driver, unmodified, against a real
// server, as an application does. It has tests only.
package driver
