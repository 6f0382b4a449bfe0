// Package crash kills a loaded server again and again and looks whether it
// kept its word. It has tests only.
package crash
