package archive

// Forgotten is what was removed from an archive by a filter, or would be.
type Forgotten struct {
	// Read are the objects that were read, and ReadBytes their bytes.
	Read, ReadBytes int64
	// Rewritten objects had other documents, too; Removed ones had none.
	Rewritten, Removed int64
	Documents          int64
	// Waiting are objects that have no row any more and are not removed yet, as their place does not
	// answer: the collector does. Those of runs before are among them.
	Waiting int64
	// Left are the _ids of the rows of objects, up to MaxLeft, that have no row any more and stay where
	// they are, as another server has written them, of which this one is a copy.
	Left []string
	// More says that it has ended before it was through, as Left is full.
	More bool
}

// MaxLeft bounds Forgotten.Left.
const MaxLeft = 1000
