package command

// ReadConcern is how settled the data that a command reads must be.
type ReadConcern struct {
	// Level is "local", "available", "majority", "linearizable" or "snapshot"; ""
	// where the client gave none, which means local.
	Level string
	// AfterClusterTime and AtClusterTime are timestamps, 0 for none.
	AfterClusterTime, AtClusterTime uint64
}

// WriteConcern is what a command that writes waits for before it answers.
type WriteConcern struct {
	// W is the number of members that must have the write; Mode, where not "", is
	// used instead ("majority").
	W    int64
	Mode string
	// Journal says to wait until the log is on the disk.
	Journal bool
	// WTimeout bounds the waiting, in milliseconds; 0 for no bound.
	WTimeout int64
	// Given says that the client gave a write concern.
	Given bool
}
