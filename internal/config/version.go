package config

// Versions that the server tells of itself.
const (
	// Version is Mayfly's own.
	Version = "0.1.0"
	// MongoDBVersion is the version of MongoDB whose behaviour clients may
	// expect; drivers and mongosh choose by it what they offer.
	MongoDBVersion = "8.0.12"
	// MaxWireVersion is that version's wire version.
	MaxWireVersion = 25
)
