// Package watch has the tests of what tells that something is wrong: mayfly doctor against real
// servers, sets and clusters, and the alerts and the dashboard on a real Prometheus.
package watch
