// Package robust does to a real server what strangers, full disks and
// operators do: garbage on the socket, no space left, a directory or a port in
// use, wrong options, too many connections, signals. It has tests only.
package robust
