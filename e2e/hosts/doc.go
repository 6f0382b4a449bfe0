// Package hosts has hosts for the servers of a test, and disturbs what is between them and
// what they store.
//
// Each host has a network of its own: a network namespace whose only interface is a TUN
// device, and this process carries the packets between them (packets.go). So each direction
// between two servers, and between a server and the clients, can be cut, delayed or made to
// lose packets, below the TCP of a real kernel, whether the kernel has netem or not. The test
// runs itself again in namespaces of its own (inside_linux.go), which takes no root where users
// may make them. Elsewhere a proxy of TCP stands before each server (proxies.go): it delays and
// cuts what comes in, whoever sends it.
//
// A directory may lie on a disk of its own, which can be full (disk_linux.go): a tmpfs, which
// shrinks to what is used.
//
// Start reading at network.go.
package hosts
