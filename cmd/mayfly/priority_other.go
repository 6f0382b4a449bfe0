//go:build !linux

package main

// lowerPriority gives the process the least priority, where that is known how.
func lowerPriority() error { return nil }
