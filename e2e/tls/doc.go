// Package tls has the tests of encryption and certificates: real processes, drivers and
// handshakes.
package tls
