// Package upgrade tests that this build goes on with what released ones have written. It has tests
// only.
//
// testdata has, for each release, the data directory of a standalone and of a member of a replica
// set as that release left them, and what a client read then (TestReleased), and so the backup of a
// cluster (TestReleasedCluster). With -upgrade.from,
// the binary of another build, a set of both builds is upgraded member by member and back
// (TestRolling). How a release adds its files, and what must hold between builds, is in
// docs/operate/upgrade.md.
//
// Start reading at released_test.go.
package upgrade
