// Package clustersim simulates a cluster: real servers and routers (internal/server) in virtual
// time, on a network and disks that are models, from one seed. Clients write registers and lists
// and read what nobody changes, while processes crash, messages are lost, doubled and late, and
// chunks move; then the histories are judged (internal/sim). What is real and what is a model,
// and how far a seed repeats, is in docs/rfcs/0032-simulated-cluster.md.
//
// It has only tests. Start reading at sim_test.go; network_test.go is the network,
// process_test.go the machines, client_test.go what clients do, intheway_test.go what doubles
// requests and plants bugs.
package clustersim
