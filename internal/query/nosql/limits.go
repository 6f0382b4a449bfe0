package nosql

// The bounds of invariant bounded.
const (
	// MaxText bounds a query, in bytes, as the service does (256 KB).
	MaxText = 256 << 10
	// maxDepth bounds how deep expressions and subqueries nest.
	maxDepth = 128
	// maxJoins bounds the JOINs of one query.
	maxJoins = 10
	// maxLogical bounds the ANDs of one query, and the ORs.
	maxLogical = 2000
	// maxList bounds the values of an IN.
	maxList = 16000
	// maxMemory bounds what a query keeps for ORDER BY, GROUP BY and DISTINCT, and what
	// it makes for one row, in bytes.
	maxMemory = 100 << 20
	// maxArray bounds the elements of an array that a subquery makes.
	maxArray = 1 << 20
	// checkEvery is after how many steps a run looks whether it is to end.
	checkEvery = 1 << 10
	// maxString bounds a string that a function makes, in bytes.
	maxString = 4 << 20
)
