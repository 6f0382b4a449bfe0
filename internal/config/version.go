package config

// Version is Mayfly's own version.
const Version = "0.1.0"

// Revision is the commit of which a released binary was built: the linker sets it (make dist).
var Revision string
