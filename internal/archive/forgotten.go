package archive

// Forgotten is what was removed from an archive by a filter, or would be.
type Forgotten struct {
	// Read are the objects that were read, and ReadBytes their bytes.
	Read, ReadBytes int64
	// Rewritten objects had other documents, too; Removed ones had none.
	Rewritten, Removed int64
	Documents          int64
	// Waiting are objects that have no row any more and are not removed yet, as their place does not
	// answer: the collector does.
	Waiting int64
	// Left are the _ids of the rows of objects, up to MaxLeft, that have no row any more and stay where
	// they are, as another server has written them, of which this one is a copy.
	Left []string
}

// MaxLeft bounds Forgotten.Left.
const MaxLeft = 1000
