// Package backup takes backups of real servers under load, restores them, and compares what is
// there with what was acknowledged. It has tests only.
package backup
