// Command packaging makes what make dist gives out: Debian and RPM packages, an OCI image, a Helm
// chart and manifests for Kubernetes, a bill of materials, and their checksums, of binaries that
// are built already. The same input makes the same bytes: all times are that of the commit, and
// nothing of this machine gets in.
//
// What lies in the packages besides the binary is in files, the Helm chart in chart.
//
// Start reading at main.go.
package main
