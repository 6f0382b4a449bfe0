// Package certificate has the server's TLS certificates: it reads the files that the options
// name, makes the configurations for connections that come and that go, reads the files again
// when it is told to, and says who the holder of a peer's certificate is. The TLS itself is
// crypto/tls.
//
// The behaviour, the options and the messages are those of mongod (manual: "Configure mongod
// and mongos for TLS/SSL", "Use x.509 Certificate for Membership Authentication").
//
// Start reading at store.go.
package certificate
